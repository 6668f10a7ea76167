package main

import (
	"fmt"
	"maps"
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
	// copyMessage and moveMessage are operations of a client. The model knows only what they do to
	// one mailbox: those below.
	copyMessage
	moveMessage
	// look says whether a message is there: it must be, to be copied.
	look
	// take removes a message, whatever its flags.
	take
	// enter adds the copy of a MOVE that may be withdrawn; withdraw removes it.
	enter
	withdraw
)

func (k kind) String() string {
	return [...]string{"append", "set", "clear", "expunge", "read", "copy", "move", "look", "take", "enter", "withdraw"}[k]
}

// The flags that clients set: a bit each.
const (
	flagged  = 1
	answered = 2
	deleted  = 4
	allFlags = flagged | answered | deleted
)

var flagNames = map[int]string{flagged: `\Flagged`, answered: `\Answered`, deleted: `\Deleted`}

// input is the operation.
type input struct {
	Kind   kind
	Token  string // of a message that is added: its text
	UID    uint32 // of a message that was there
	Flag   int
	Flags  int // of a copy: flags that it certainly has,
	Unsure int // and those that it may have: whether the original had them at that moment is not known
	Mark   int // joins enter and withdraw of one MOVE
}

// output is what came back.
type output struct {
	Unknown bool   // no answer, or one that leaves it open: the operation may be applied, then or later, or never
	Missing bool   // OK without COPYUID: the message was not there
	UID     uint32 // of a message that was added
	Rows    []row  // of a read
	Modseq  uint64 // of a read: HIGHESTMODSEQ
	Next    uint32 // of a read: UIDNEXT when the mailbox was selected
}

// row is a message. A flag in Unsure is set or not: the next read says which.
type row struct {
	UID    uint32
	Token  string
	Flags  int
	Unsure int
}

// state is what a mailbox may be: one line for each possibility, which are few. It is a string, so
// that states are compared at no cost. A line is UIDNEXT, the messages by UID, and the copies of
// MOVEs that have not been answered.
type state = string

// mailbox is one possibility.
type mailbox struct {
	next    uint32
	rows    []row
	entered map[int]uint32 // by mark: the copy's UID, 0 if no copy was made
}

func (m mailbox) encode() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d", m.next)
	for _, r := range m.rows {
		fmt.Fprintf(&s, " %d:%s:%d:%d", r.UID, r.Token, r.Flags, r.Unsure)
	}
	marks := make([]int, 0, len(m.entered))
	for mark := range m.entered {
		marks = append(marks, mark)
	}
	sort.Ints(marks)
	for _, mark := range marks {
		fmt.Fprintf(&s, " %d=%d", mark, m.entered[mark])
	}
	return s.String()
}

func decode(line string) mailbox {
	words := strings.Fields(line)
	m := mailbox{entered: map[int]uint32{}}
	fmt.Sscan(words[0], &m.next)
	for _, word := range words[1:] {
		if mark, uid, ok := strings.Cut(word, "="); ok {
			var n int
			var of uint32
			fmt.Sscan(mark, &n)
			fmt.Sscan(uid, &of)
			m.entered[n] = of
			continue
		}
		parts := strings.Split(word, ":")
		r := row{Token: parts[1]}
		fmt.Sscan(parts[0], &r.UID)
		fmt.Sscan(parts[2], &r.Flags)
		fmt.Sscan(parts[3], &r.Unsure)
		m.rows = append(m.rows, r)
	}
	return m
}

// at is where a message is among the rows; ok is false if it is not there.
func (m mailbox) at(uid uint32) (at int, ok bool) {
	at = sort.Search(len(m.rows), func(n int) bool { return m.rows[n].UID >= uid })
	return at, at < len(m.rows) && m.rows[at].UID == uid
}

// without removes a message, if it is there.
func (m mailbox) without(uid uint32) mailbox {
	if at, ok := m.at(uid); ok {
		m.rows = append(append([]row{}, m.rows[:at]...), m.rows[at+1:]...)
	}
	return m
}

// with adds a message at the end.
func (m mailbox) with(in input) mailbox {
	m.rows = append(append([]row{}, m.rows...), row{m.next, in.Token, in.Flags, in.Unsure})
	m.next++
	return m
}

// marked notes the UID that the copy of a MOVE got.
func (m mailbox) marked(mark int, uid uint32) mailbox {
	m.entered = maps.Clone(m.entered)
	m.entered[mark] = uid
	return m
}

// step is the specification: what a mailbox may be after an operation that answered so; nothing if
// it may not answer so. It may change m, which is decoded for it alone.
func (m mailbox) step(in input, out output) []mailbox {
	at, there := m.at(in.UID)
	switch in.Kind {
	case appendMessage:
		if !out.Unknown && out.UID != m.next {
			return nil
		}
		return []mailbox{m.with(in)}
	case setFlag, clearFlag:
		// RFC 9051 §6.4.9: a UID that does not exist is skipped without an error.
		if there {
			r := &m.rows[at]
			r.Unsure &^= in.Flag
			if r.Flags &^= in.Flag; in.Kind == setFlag {
				r.Flags |= in.Flag
			}
		}
	case expunge:
		if there && m.rows[at].Unsure&deleted != 0 {
			expunged := m.without(in.UID)
			m.rows[at].Unsure &^= deleted
			return []mailbox{m, expunged}
		}
		if there && m.rows[at].Flags&deleted != 0 {
			return []mailbox{m.without(in.UID)}
		}
	case look:
		// An expunged UID never returns, and a client names only UIDs that it has read. So a message
		// that was copied existed at some moment of the command. If nothing was copied, the message was
		// expunged at some moment. COPYUID cannot report that (RFC 4315 §3), and it is no error
		// (RFC 9051 §6.4.9).
		if there == out.Missing {
			return nil
		}
	case take:
		// One of several removals of a message succeeds.
		if !there && !out.Unknown {
			return nil
		}
		return []mailbox{m.without(in.UID)}
	case enter:
		entered := m.with(in).marked(in.Mark, m.next)
		if out.Unknown {
			return []mailbox{entered}
		}
		return []mailbox{entered, m.marked(in.Mark, 0)}
	case withdraw:
		uid, known := m.entered[in.Mark]
		if !known && !out.Unknown {
			return nil
		}
		delete(m.entered, in.Mark)
		return []mailbox{m.without(uid)}
	case read:
		if !out.Unknown {
			return m.seen(out.Rows)
		}
	}
	return []mailbox{m}
}

// seen compares a mailbox with what was read of it, which shows flags that were not known. A
// message that nobody could read before it was expunged has no token.
func (m mailbox) seen(rows []row) []mailbox {
	if len(m.rows) != len(rows) {
		return nil
	}
	known := make([]row, len(rows))
	for n, r := range m.rows {
		is := rows[n]
		if is.UID != r.UID || (is.Flags^r.Flags)&^r.Unsure != 0 || (is.Token != "" && is.Token != r.Token) {
			return nil
		}
		known[n] = row{UID: r.UID, Token: r.Token, Flags: is.Flags}
	}
	m.rows = known
	return []mailbox{m}
}

// step is the same for all possibilities together. An operation may answer so if one of them allows
// it.
func step(s state, in input, out output) (bool, state) {
	var lines []string
	for _, line := range strings.Split(s, "\n") {
		for _, m := range decode(line).step(in, out) {
			lines = append(lines, m.encode())
		}
	}
	sort.Strings(lines)
	distinct := lines[:0]
	for n, line := range lines {
		if n == 0 || line != lines[n-1] {
			distinct = append(distinct, line)
		}
	}
	return len(distinct) > 0, strings.Join(distinct, "\n")
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return mailbox{next: 1}.encode() },
		Step: func(s, in, out any) (bool, any) {
			ok, next := step(s.(state), in.(input), out.(output))
			return ok, next
		},
		DescribeOperation: func(in, out any) string {
			i, o := in.(input), out.(output)
			what := i.Token
			switch {
			case i.Kind == read:
				what = fmt.Sprint(o.Rows)
			case i.UID > 0:
				what = strings.TrimSpace(fmt.Sprintf("%d %s", i.UID, flagNames[i.Flag]))
			}
			answer := "ok"
			switch {
			case o.Unknown:
				answer = "unknown"
			case o.Missing:
				answer = "not there"
			case o.UID > 0:
				answer = fmt.Sprintf("UID %d", o.UID)
			}
			return fmt.Sprintf("%s %s: %s", i.Kind, what, answer)
		},
		DescribeState: func(s any) string { return s.(state) },
	}
}
