package redistest

import "syscall"

// dieWithParent has the kernel end a server whose test was killed, or ran out of time, before its cleanup.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
