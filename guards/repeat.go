package guards

import "fmt"

// Ended is how a call ended, as far as repeating it matters.
type Ended string

// The ways in which a call ends, for this guard.
const (
	Well     Ended = "well"
	Badly    Ended = "badly"   // failed, refused or denied
	InDoubt  Ended = "doubt"   // an effect that may have happened
	Answered Ended = "answers" // it was answered from the record
)

// Past is a call that has ended.
type Past struct {
	Seq        int
	Same       string // equal for equal calls: tool and canonical arguments, why and expects left out
	Ended      Ended
	Effect     bool // it changes the world
	Fresh      bool // its tool is never answered from the record
	Repeatable bool // its effect may run again in one run
	Tool       string
	Told       string // what the model was told when it ended badly
}

// Repeat is the guard against calls that were made before in this run (rule L4). The zero value has seen nothing. It is
// not safe for concurrent use.
type Repeat struct {
	failed map[string]Past // the earlier failure of an equal call
	doubt  map[string]Past // effects whose outcome is not known: never lifted
	done   map[string]Past // effects that have happened
	read   map[string]Past // reads that were answered
	times  map[string]int  // how often a remembered read was asked for
}

// Note remembers how a call ended. Calls must be noted in the order in which they ended; a run that is resumed notes its
// stored calls again.
func (r *Repeat) Note(p Past) {
	if r.failed == nil {
		r.failed, r.doubt, r.done, r.read, r.times = map[string]Past{}, map[string]Past{}, map[string]Past{}, map[string]Past{}, map[string]int{}
	}
	switch p.Ended {
	case Badly:
		if _, known := r.failed[p.Same]; !known {
			r.failed[p.Same] = p
		}
	case InDoubt:
		r.doubt[p.Same] = p
	case Well:
		if p.Effect {
			r.done[p.Same] = p
			r.Lift()
			return
		}
		delete(r.failed, p.Same)
		if !p.Fresh {
			r.read[p.Same] = p
			r.times[p.Same] = 1
		}
	case Answered:
		r.times[p.Same]++
	}
}

// Lift forgets reads and lifts refusals once: the world has changed, by an effect or by a person's new message.
func (r *Repeat) Lift() {
	clear(r.failed)
	clear(r.read)
	clear(r.times)
}

// Judge says whether an equal call may run. repeatable is the tool's word that its effect may run again.
func (r *Repeat) Judge(same string, repeatable bool) Verdict {
	if p, ok := r.doubt[same]; ok {
		return Verdict{Say: Refuse, Why: fmt.Sprintf("this exact %s call was made before (call %d) and nobody knows whether it took effect. "+
			"Do not make it again. Tell the user so, and that a person has to look.", p.Tool, p.Seq)}
	}
	if p, ok := r.failed[same]; ok {
		return Verdict{Say: Refuse, Why: fmt.Sprintf("this exact %s call has already failed (call %d): %s. "+
			"It will not be run again with the same arguments. Tell the user what the problem is and what they can do.", p.Tool, p.Seq, p.Told)}
	}
	if p, ok := r.done[same]; ok && !repeatable {
		return Verdict{Say: Record, From: p.Seq, Why: fmt.Sprintf("this effect was already done in this run (call %d); it was not done again", p.Seq)}
	}
	if p, ok := r.read[same]; ok {
		v := Verdict{Say: Record, From: p.Seq, Why: fmt.Sprintf("this was already answered in this run (call %d)", p.Seq)}
		if r.times[same] >= 2 {
			v.Ends = true
			v.Why += "; asking a third time makes no progress, so no more tools are offered"
		}
		return v
	}
	return Verdict{Say: Allow}
}
