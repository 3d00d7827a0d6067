//go:build !race

package dojotest

const raced = false
