// Package archtest holds the map against the house: the tables of ARCHITECTURE.md against the imports, the README against
// the commands, the decisions against go.mod, and names and words that do not belong in the tree.
//
// It has tests only. It must not know what any package does, only what it is called and what it imports.
package archtest
