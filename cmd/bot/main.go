package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"switchboard/config"
)

// version is set when a release is built.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, config.OS())
	stop()
	os.Exit(code)
}
