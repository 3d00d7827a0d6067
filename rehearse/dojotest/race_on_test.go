//go:build race

package dojotest

// raced says that the race detector looks on, which makes a run ten times as dear.
const raced = true
