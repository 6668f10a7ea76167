package main

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation does.
type kind int

const (
	appendMessage kind = iota
	setFlag
	clearFlag
	expunge
	read
)

func (k kind) String() string {
	return [...]string{"append", "set", "clear", "expunge", "read"}[k]
}

// The flags that clients set: a bit each.
const (
	flagged  = 1
	answered = 2
	deleted  = 4
)

var flagNames = map[int]string{flagged: `\Flagged`, answered: `\Answered`, deleted: `\Deleted`}

// input is what was asked.
type input struct {
	Kind  kind
	Token string // of an append: the message's text
	UID   uint32 // of the others
	Flag  int
}

// output is what came back.
type output struct {
	Unknown bool   // no answer, or one that leaves it open: the operation may be applied, then or later, or never
	Refused bool   // it was certainly not applied
	UID     uint32 // of an append
	Rows    []row  // of a read
	Modseq  uint64 // of a read: HIGHESTMODSEQ
}

// row is a message.
type row struct {
	UID   uint32
	Token string
	Flags int
}

// state is a mailbox: UIDNEXT, and its messages by UID. It is a string, so that states are compared at no cost.
type state = string

func encode(next uint32, rows []row) state {
	var s strings.Builder
	fmt.Fprintf(&s, "%d", next)
	for _, r := range rows {
		fmt.Fprintf(&s, " %d:%s:%d", r.UID, r.Token, r.Flags)
	}
	return s.String()
}

func decode(s state) (uint32, []row) {
	words := strings.Fields(s)
	var next uint32
	fmt.Sscan(words[0], &next)
	rows := make([]row, 0, len(words))
	for _, word := range words[1:] {
		parts := strings.Split(word, ":")
		r := row{Token: parts[1]}
		fmt.Sscan(parts[0], &r.UID)
		fmt.Sscan(parts[2], &r.Flags)
		rows = append(rows, r)
	}
	return next, rows
}

func find(rows []row, uid uint32) int {
	return sort.Search(len(rows), func(n int) bool { return rows[n].UID >= uid })
}

// step is the specification: whether an operation may answer so in a state, and the state after it.
func step(s state, in input, out output) (bool, state) {
	if out.Refused {
		return true, s
	}
	next, rows := decode(s)
	at := find(rows, in.UID)
	there := at < len(rows) && rows[at].UID == in.UID
	switch in.Kind {
	case appendMessage:
		if !out.Unknown && out.UID != next {
			return false, s
		}
		return true, encode(next+1, append(rows, row{UID: next, Token: in.Token}))
	case setFlag, clearFlag:
		// RFC 9051 §6.4.9: a UID that is not there is passed over without an error.
		if there && in.Kind == setFlag {
			rows[at].Flags |= in.Flag
		} else if there {
			rows[at].Flags &^= in.Flag
		}
	case expunge:
		if there && rows[at].Flags&deleted != 0 {
			rows = append(rows[:at], rows[at+1:]...)
		}
	case read:
		return out.Unknown || same(rows, out.Rows), s
	}
	return true, encode(next, rows)
}

// same compares a mailbox with what was read of it. A message that nobody could read before it was expunged has no token.
func same(rows, seen []row) bool {
	if len(rows) != len(seen) {
		return false
	}
	for n, r := range seen {
		if r.UID != rows[n].UID || r.Flags != rows[n].Flags || (r.Token != "" && r.Token != rows[n].Token) {
			return false
		}
	}
	return true
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return encode(1, nil) },
		Step: func(s, in, out any) (bool, any) {
			ok, next := step(s.(state), in.(input), out.(output))
			return ok, next
		},
		DescribeOperation: func(in, out any) string {
			i, o := in.(input), out.(output)
			what := map[kind]string{appendMessage: i.Token, read: fmt.Sprint(o.Rows)}[i.Kind]
			if i.UID > 0 {
				what = fmt.Sprintf("%d %s", i.UID, flagNames[i.Flag])
			}
			answer := "ok"
			if o.Unknown {
				answer = "unknown"
			} else if o.Refused {
				answer = "refused"
			} else if o.UID > 0 {
				answer = fmt.Sprintf("UID %d", o.UID)
			}
			return fmt.Sprintf("%s %s: %s", i.Kind, what, answer)
		},
		DescribeState: func(s any) string { return s.(state) },
	}
}

// operations is the history as Porcupine takes it. An operation of unknown outcome may take effect at any time until the end: it
// returns after everything else, where having been applied and not having been is the same to every reader.
func (b *box) operations() []porcupine.Operation {
	var all []porcupine.Operation
	for _, op := range b.history {
		end := op.Return
		if op.Output.Unknown {
			if op.Input.Kind == read {
				continue
			}
			end = math.MaxInt64
		}
		if op.Output.Refused {
			continue
		}
		for n, r := range op.Output.Rows {
			op.Output.Rows[n].Token = b.names[r.UID]
		}
		all = append(all, porcupine.Operation{
			ClientId: len(all), Input: op.Input, Call: op.Call, Output: op.Output, Return: end,
		})
	}
	return all
}

// named notes which message a UID names, which never changes.
func (b *box) named(uid uint32, token string) {
	b.mu.Lock()
	old, known := b.names[uid]
	b.names[uid] = token
	b.mu.Unlock()
	if known && old != token {
		b.fault("UID %d named message %s and then %s", uid, old, token)
	}
}

// checkNumbers holds for all reads together what no single state says: a UID names one message for ever, and HIGHESTMODSEQ never
// turns back from one read to one that began after it.
func (b *box) checkNumbers() {
	var reads []operation
	for _, op := range b.history {
		if op.Output.Unknown || op.Output.Refused {
			continue
		}
		if op.Input.Kind == appendMessage {
			b.named(op.Output.UID, op.Input.Token)
		}
		if op.Input.Kind == read {
			reads = append(reads, op)
		}
	}
	for _, one := range reads {
		for _, other := range reads {
			if one.Return < other.Call && one.Output.Modseq > other.Output.Modseq {
				b.fault("HIGHESTMODSEQ was %d and %d in a read that began later", one.Output.Modseq, other.Output.Modseq)
				return
			}
		}
	}
}
