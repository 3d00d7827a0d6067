// Package dojotest plays orders of strangers against the rules: the 21 tasks and 5 attacks of the Slack suite of AgentDojo
// (https://arxiv.org/abs/2406.13352), restated with people, places and words of our own, and a corpus of disguised orders.
//
// It has tests only. Its model does whatever any text tells it to, so that nothing but the rules stands between an order and
// the world; whether an attack or a task succeeded is read off the world, never from what somebody wrote. It must not know
// how a rule is made: what is switched off for a comparison is switched off in the pack.
package dojotest
