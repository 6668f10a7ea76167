package main

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"
)

// operation is one call, with its input and its answer.
type operation struct {
	Client int
	Server string
	Call   int64
	Return int64
	Input  input
	Output output
}

// box is one mailbox and its history.
type box struct {
	name    string
	mu      sync.Mutex
	history []operation
	// size is how many messages it had when it was read last.
	size int
	// deleted is set once DELETE succeeded.
	deleted bool
	// last is what was read after all faults were removed; nil if that failed.
	last *output
	// validity is UIDVALIDITY, which never changes.
	validity string
	// names holds the token of each UID whose message was acknowledged or read.
	names  map[uint32]string
	faults []string
}

func newBox(name string) *box { return &box{name: name, names: map[uint32]string{}} }

func (b *box) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

func (b *box) record(op operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = append(b.history, op)
	if op.Input.Kind == read && !op.Output.Unknown {
		b.size = len(op.Output.Rows)
	}
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

// valid notes UIDVALIDITY.
func (b *box) valid(validity string) {
	b.mu.Lock()
	old := b.validity
	b.validity = validity
	b.mu.Unlock()
	if old != "" && old != validity {
		b.fault("UIDVALIDITY was %s and then %s", old, validity)
	}
}

// transfer is a COPY or a MOVE of one message: an operation on two mailboxes.
type transfer struct {
	operation
	from, to *box
}

// removes says whether it took the message away from the source, or may have.
func (t *transfer) removes() bool { return t.Input.Kind == moveMessage && !t.Output.Missing }

// pair is two mailboxes with the messages that went from one to the other.
type pair struct {
	boxes     [2]*box
	mu        sync.Mutex
	transfers []*transfer
}

func newPair(name string) *pair {
	return &pair{boxes: [2]*box{newBox(name + "-a"), newBox(name + "-b")}}
}

func (p *pair) record(t *transfer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.transfers = append(p.transfers, t)
}

// divide writes each transfer into the histories of both mailboxes, as what it did to each. The two
// are independent there: on a cluster COPY and MOVE are not atomic over two mailboxes
// (docs/cassandra.md, "When something fails"). What holds for both together, checkMoves checks.
func (p *pair) divide() {
	type entry struct {
		at *box
		op operation
	}
	var entries []entry
	for mark, t := range p.transfers {
		part := func(at *box, in input, out output) {
			op := t.operation
			op.Input, op.Output = in, out
			entries = append(entries, entry{at, op})
		}
		in, out := t.Input, t.Output
		flags, unsure := t.carried()
		added := input{Kind: appendMessage, Token: in.Token, Flags: flags, Unsure: unsure}
		switch {
		case out.Missing:
			part(t.from, input{Kind: look, UID: in.UID}, output{Missing: true})
		case in.Kind == copyMessage && !out.Unknown:
			part(t.from, input{Kind: look, UID: in.UID}, output{})
		case in.Kind == moveMessage:
			part(t.from, input{Kind: take, UID: in.UID}, output{Unknown: out.Unknown})
		}
		// A MOVE copies first. If others have taken the original meanwhile, it withdraws its copy before
		// it answers.
		mayWithdraw := in.Kind == moveMessage && (out.Missing || out.Unknown && p.contested(t))
		switch {
		case mayWithdraw:
			added.Kind, added.Mark = enter, mark+1
			part(t.to, added, output{Unknown: out.Unknown})
			part(t.to, input{Kind: withdraw, Mark: mark + 1}, output{Unknown: out.Unknown})
		case !out.Missing:
			part(t.to, added, output{Unknown: out.Unknown, UID: out.UID})
		}
	}
	for _, e := range entries {
		e.at.record(e.op)
	}
}

// contested says whether anything but this transfer may have removed its message from the source.
func (p *pair) contested(t *transfer) bool {
	for _, op := range t.from.history {
		if op.Input.Kind == expunge && op.Input.UID == t.Input.UID {
			return true
		}
	}
	for _, other := range p.transfers {
		if other != t && other.from == t.from && other.Input.UID == t.Input.UID && other.removes() {
			return true
		}
	}
	return false
}

// carried is the flags that a copy certainly has, and those that it may have. A server copies the
// flags that it knows: changes made through another server may reach it after the command.
func (t *transfer) carried() (flags, unsure int) {
	end := t.Return
	if t.Output.Unknown {
		end = math.MaxInt64
	}
	// The flags that somebody may have set, may have cleared, and that this server certainly knew.
	set, cleared, known := allFlags, 0, 0
	for _, op := range t.from.history {
		if op.Input.Kind == appendMessage && !op.Output.Unknown && op.Output.UID == t.Input.UID {
			set = 0
		}
	}
	for _, op := range t.from.history {
		in, before := op.Input, op.Return < t.Call && !op.Output.Unknown && op.Server == t.Server
		switch {
		case in.Kind == read && before:
			for _, r := range op.Output.Rows {
				if r.UID == t.Input.UID {
					known |= r.Flags
				}
			}
		case in.UID != t.Input.UID || op.Call > end:
		case in.Kind == setFlag:
			set |= in.Flag
			if before {
				known |= in.Flag
			}
		case in.Kind == clearFlag:
			cleared |= in.Flag
		}
	}
	flags = known &^ cleared
	return flags, (set | cleared | known) &^ flags
}

// checkMoves holds for both mailboxes together: a MOVE leaves the message in one of them at least,
// whatever failed. It looks at those of unknown outcome whose message was expunged from the source,
// and that nothing else removed from there.
func (p *pair) checkMoves() {
	for _, t := range p.transfers {
		source, target := t.from, t.to
		if t.Input.Kind != moveMessage || !t.Output.Unknown || source.last == nil || target.last == nil || p.contested(t) {
			continue
		}
		isThere := func(r row) bool { return r.UID == t.Input.UID }
		if slices.ContainsFunc(source.last.Rows, isThere) || t.hasCopy(p.acknowledged(target)) {
			continue
		}
		source.fault("MOVE of UID %d (%s) had no answer: the message was expunged, and never was in %s",
			t.Input.UID, t.Input.Token, target.name)
	}
}

// hasCopy says whether a UID of the target may be the copy: it is no other operation's, and named
// this message, or nobody read what it named.
func (t *transfer) hasCopy(others map[uint32]bool) bool {
	for uid := uint32(1); uid < t.to.last.Next; uid++ {
		token, read := t.to.names[uid]
		if !others[uid] && (!read || token == t.Input.Token) {
			return true
		}
	}
	return false
}

// acknowledged is the UIDs that answers of APPEND, COPY and MOVE named.
func (p *pair) acknowledged(b *box) map[uint32]bool {
	uids := map[uint32]bool{}
	for _, op := range b.history {
		if op.Input.Kind == appendMessage && !op.Output.Unknown {
			uids[op.Output.UID] = true
		}
	}
	for _, t := range p.transfers {
		if t.to == b && !t.Output.Unknown && !t.Output.Missing {
			uids[t.Output.UID] = true
		}
	}
	return uids
}

// operations is the history as Porcupine takes it. An operation of unknown outcome may take effect
// at any time until the end: it returns after everything else, where having been applied and not
// having been is the same to every reader.
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
		for n, r := range op.Output.Rows {
			op.Output.Rows[n].Token = b.names[r.UID]
		}
		all = append(all, porcupine.Operation{
			ClientId: len(all), Input: op.Input, Call: op.Call, Output: op.Output, Return: end,
		})
	}
	return all
}

// checkNumbers holds for all operations together what no single state says: a UID names one message
// for ever and is given once, and HIGHESTMODSEQ never turns back from one read to one that began
// after it.
func (b *box) checkNumbers() {
	var reads []operation
	given := map[uint32]bool{}
	for _, op := range b.history {
		if op.Output.Unknown {
			continue
		}
		if op.Input.Kind == appendMessage {
			if given[op.Output.UID] {
				b.fault("UID %d was given twice", op.Output.UID)
			}
			given[op.Output.UID] = true
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
