// Package sim is a simulated Slack workspace: its Web API, Socket Mode and signed HTTP delivery over real sockets, with its
// limits, its refusals and, on demand, its faults; and a web page on which people write, click and watch.
//
// The bot's own code talks to it as it talks to Slack. It must not know the bot: it imports nothing of ours, and no client
// library of Slack's.
package sim
