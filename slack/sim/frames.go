package sim

import (
	"encoding/binary"
	"net"
	"sync"
)

// frames watches the bytes of a WebSocket that come from the client and tells of each message whether it came in several
// frames: the library joins them, and Slack ignores such messages (measured by a client's author).
type frames struct {
	net.Conn
	head    []byte // of the frame that has begun, until it is whole
	payload uint64 // bytes of the frame's payload still to come
	parts   int    // data frames of the message that is not finished yet

	mu   sync.Mutex
	done []bool // for each finished message, whether it came in parts
}

func (f *frames) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.watch(b[:n])
	return n, err
}

// watch follows the frames. Format: RFC 6455, section 5.2.
func (f *frames) watch(b []byte) {
	for len(b) > 0 {
		if f.payload > 0 {
			n := min(f.payload, uint64(len(b)))
			f.payload -= n
			b = b[n:]
			continue
		}
		f.head = append(f.head, b[0])
		b = b[1:]
		if len(f.head) < 2 {
			continue
		}
		size, need := uint64(f.head[1]&0x7f), 2
		switch size {
		case 126:
			need += 2
		case 127:
			need += 8
		}
		if f.head[1]&0x80 != 0 {
			need += 4 // the mask
		}
		if len(f.head) < need {
			continue
		}
		switch size {
		case 126:
			size = uint64(binary.BigEndian.Uint16(f.head[2:4]))
		case 127:
			size = binary.BigEndian.Uint64(f.head[2:10])
		}
		f.frame(f.head[0])
		f.head, f.payload = f.head[:0], size
	}
}

// frame counts a frame by its first byte.
func (f *frames) frame(first byte) {
	if first&0x08 != 0 {
		return // a control frame may stand between the parts of a message
	}
	f.parts++
	if first&0x80 == 0 {
		return
	}
	f.mu.Lock()
	f.done = append(f.done, f.parts > 1)
	f.mu.Unlock()
	f.parts = 0
}

// inParts takes what is known of the next message.
func (f *frames) inParts() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.done) == 0 {
		return false
	}
	next := f.done[0]
	f.done = f.done[1:]
	return next
}
