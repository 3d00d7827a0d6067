package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"switchboard/store"
)

// lock is the right of one process to work on a file. The kernel holds it, not the text in the file: the pid there only
// tells a second process whom to name.
type lock struct{ file *os.File }

// takeLock locks PLACE.lock. path is the name that people know.
func takeLock(place, path string) (*lock, error) {
	f, err := os.OpenFile(place+".lock", os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator chose the path
	if err != nil {
		return nil, fmt.Errorf("lock store %s: %w; its folder must exist and be writable", path, err)
	}
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("open store %s: %w%s; stop that process first, or read beside it with `bot runs` and `bot trace`",
			path, store.ErrInUse, holder(f))
		return nil, errors.Join(err, f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock store %s: %w; the disk must be writable", path, err), f.Close())
	}
	return &lock{f}, nil
}

// flock changes the lock, again when a signal cut in.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// holder names the process that wrote its pid, in brackets, or is empty if it has not got that far.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// free gives the lock up. It unlocks before it closes: a child that is being forked shares the file until its exec, and
// would keep the lock for that moment. The file stays: to remove it would let two processes lock two files of one name.
func (l *lock) free() error {
	return errors.Join(flock(l.file, syscall.LOCK_UN), l.file.Close())
}
