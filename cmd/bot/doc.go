/*
Bot runs a Switchboard pack: a router and several narrow assistants that answer people, with every tool call checked,
bounded and written down before it runs.

# The tour

Read the house from here; each stop is one package, and imports only ever point down this list.

A message comes in on a surface. Package slack makes a [chat.Message] of an event and calls turn.Engine.Accept, which stores
it in the queue of its thread; only what is stored is acknowledged. Clicks and the wish to stop wait in the same queue. The
terminal (chat.go) is a surface too, and package slack/sim is a Slack that runs on this machine.

Package turn tells the story of the message. A worker leases the thread, so that a thread has one turn at a time. route.go
asks package router which assistant should take it; a low confidence becomes a question and not a guess. The decision is
made durable. run.go then lets the assistant answer, fold.go brings in what its asker adds meanwhile, stop.go ends it where
somebody wants that, deliver.go brings the answer out, once.

Package assistants has made the pack ready: who may use which assistant, with which tools, under which prompt. Values that
the runtime binds (the organisation of a channel, say) are never seen by a model.

Package loop is the agent: ask the model, run the calls that it wants, ask again, and when the rounds are over ask once
without tools. It is short; print it.

Package tools is the one door for calls. Dispatcher.Call reads from top to bottom as the rules do: known, whole, as the
schema says, bound, guarded; then the intent is made durable, and only then does anything run. What comes back is checked,
masked and cut. Whatever went wrong, the model gets data.

Package guards holds the reasons to say no, one file each. Package journal is the record from which traces, summaries and
the runtime's own sentences are drawn. Package store keeps it all: store/sqlite in one file for one process, store/redis
on a server for several. Package llm closes the gaps between providers; llm/scripted plays the pack's rehearsals when there is
no key. Package config turns the files of a pack into one checked value, or into a list of problems with places.

# What waits for a person

A rule that says ask leaves the call on record and ends the try: no goroutine waits (tools/ask.go, turn/wait.go). Who decides does
so on a card in Slack, by a line of the terminal (orders.go), or with bot approvals at the door of a bot at work (door.go, knock.go);
all of them end in turn.Engine.Decide, which makes the decision durable and queues it on the thread of its run. doctor.go says
what needs a person.

# Wiring

main.go ends the process, app.go starts and stops the parts, reload.go swaps the pack, wire.go puts them together in one
straight line, stores.go opens the store that the environment names, station.go puts a bot in front of Slack, and every command has a file.

To add a tool: its contract in the pack, and for a built-in one its work in tools/builtin.go and its contract in
config/builtin.go. To add a guard: a file in package guards, and a line in Dispatcher.judge.
*/
package main
