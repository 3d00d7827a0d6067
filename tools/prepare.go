package tools

import (
	"crypto/sha256"
	"encoding/hex"
)

// Preparer is a Tool that can show what it would send. Run sends exactly that, at every attempt: what Prepare gives for
// an input depends on nothing but the input and how the tool was opened.
//
// Prepare asks no server. Its error is a *Fault, the one that Run would give before anything is sent.
type Preparer interface {
	Prepare(in Input) (Prepared, error)
}

// Prepared is a request as its server gets it: what a person approves and what the record vouches for. The server's
// address, its credentials and the idempotency key are not part of it. It may hold bound values, which no model may see.
type Prepared struct {
	Method string
	Target string // path and query as they stand in the request line
	Body   []byte // nil: the request has none
}

// Digest names the request: the SHA-256 of "METHOD TARGET\nBODY", as 64 lower-case hexadecimal digits.
func (p Prepared) Digest() string {
	h := sha256.New()
	h.Write([]byte(p.Method + " " + p.Target + "\n")) // a hash takes all that it is given
	h.Write(p.Body)
	return hex.EncodeToString(h.Sum(nil))
}
