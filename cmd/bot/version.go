package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func versionCommand(s streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(s.out, map[string]string{"version": version, "go": runtime.Version()})
			}
			_, err := fmt.Fprintf(s.out, "switchboard %s (%s)\n", version, runtime.Version())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
