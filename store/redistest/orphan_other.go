//go:build !linux

package redistest

import "syscall"

// dieWithParent can promise nothing here: a server outlives a test that was killed before its cleanup.
func dieWithParent() *syscall.SysProcAttr { return nil }
