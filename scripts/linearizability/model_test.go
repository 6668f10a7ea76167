package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// story is a history that a test writes down: one operation after the other, each of two moments.
type story struct {
	*pair
	a, b *box
	now  int64
}

func newStory() *story {
	p := newPair("g")
	return &story{pair: p, a: p.boxes[0], b: p.boxes[1]}
}

func (s *story) op(in input, out output) operation {
	s.now += 2
	return operation{Server: "one", Call: s.now, Return: s.now + 1, Input: in, Output: out}
}

func (s *story) does(at *box, in input, out output) { at.record(s.op(in, out)) }

func (s *story) appends(at *box, token string, uid uint32) {
	s.does(at, input{Kind: appendMessage, Token: token}, output{UID: uid})
	at.named(uid, token)
}

func (s *story) flags(at *box, what kind, uid uint32, flag int) {
	s.does(at, input{Kind: what, UID: uid, Flag: flag}, output{})
}

// reads is a read that saw the messages, and found their bodies to be these tokens.
func (s *story) reads(at *box, rows ...row) {
	for _, r := range rows {
		at.named(r.UID, r.Token)
	}
	s.does(at, input{Kind: read}, output{Rows: rows})
}

// ends is the last read of a mailbox.
func (s *story) ends(at *box, next uint32, rows ...row) {
	s.reads(at, rows...)
	at.last = &output{Rows: rows, Next: next}
}

// transfers is a COPY or MOVE from a to b.
func (s *story) transfers(what kind, uid uint32, token string, out output) *transfer {
	t := &transfer{operation: s.op(input{Kind: what, UID: uid, Token: token}, out), from: s.a, to: s.b}
	s.pair.record(t)
	return t
}

// faults does all checks.
func (s *story) faults() (all []string) {
	s.check(func(b *box) {
		if !porcupine.CheckOperations(model(), b.operations()) {
			b.fault("not linearizable")
		}
	})
	for _, b := range s.boxes {
		for _, fault := range b.faults {
			all = append(all, b.name+": "+fault)
		}
	}
	return all
}

func TestHistoriesThatMustPass(t *testing.T) {
	for name, tell := range map[string]func(*story){
		"one after the other": func(s *story) {
			s.appends(s.a, "x", 1)
			s.flags(s.a, setFlag, 1, flagged)
			s.transfers(copyMessage, 1, "x", output{UID: 1})
			s.reads(s.b, row{UID: 1, Token: "x", Flags: flagged})
			s.appends(s.b, "y", 2)
			s.transfers(moveMessage, 1, "x", output{UID: 3})
			s.ends(s.a, 2)
			s.flags(s.b, setFlag, 1, deleted)
			s.flags(s.b, expunge, 1, 0)
			// Messages that were not marked stay.
			s.flags(s.b, expunge, 2, 0)
			s.ends(s.b, 4, row{UID: 2, Token: "y"}, row{UID: 3, Token: "x", Flags: flagged})
		},
		"an APPEND without an answer, applied late": func(s *story) {
			s.does(s.a, input{Kind: appendMessage, Token: "x"}, output{Unknown: true})
			s.reads(s.a)
			s.ends(s.a, 2, row{UID: 1, Token: "x"})
		},
		"a MOVE without an answer left the message in both": func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{Unknown: true})
			s.ends(s.a, 2, row{UID: 1, Token: "x"})
			s.ends(s.b, 2, row{UID: 1, Token: "x"})
		},
		"a MOVE without an answer did all": func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{Unknown: true})
			s.ends(s.b, 2, row{UID: 1, Token: "x"})
			s.ends(s.a, 2)
		},
		"a MOVE without an answer did nothing": func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{Unknown: true})
			s.ends(s.a, 2, row{UID: 1, Token: "x"})
			s.ends(s.b, 1)
		},
		"a MOVE that came too late withdrew its copy": func(s *story) {
			s.appends(s.a, "x", 1)
			late := s.transfers(moveMessage, 1, "x", output{Missing: true})
			s.transfers(moveMessage, 1, "x", output{UID: 2})
			s.reads(s.b, row{UID: 1, Token: "x"}, row{UID: 2, Token: "x"})
			s.now += 2
			late.Return = s.now
			s.ends(s.b, 3, row{UID: 2, Token: "x"})
			s.ends(s.a, 2)
		},
		"a COPY of a message that was expunged": func(s *story) {
			s.appends(s.a, "x", 1)
			s.flags(s.a, setFlag, 1, deleted)
			s.flags(s.a, expunge, 1, 0)
			s.transfers(copyMessage, 1, "x", output{Missing: true})
			s.ends(s.a, 2)
			s.ends(s.b, 1)
		},
		"a copy with a flag that another server set": func(s *story) {
			s.appends(s.a, "x", 1)
			set := s.op(input{Kind: setFlag, UID: 1, Flag: deleted}, output{})
			set.Server = "two"
			s.a.record(set)
			s.transfers(copyMessage, 1, "x", output{UID: 1})
			s.transfers(copyMessage, 1, "x", output{UID: 2})
			// Either had \Deleted, or not.
			s.flags(s.b, expunge, 1, 0)
			s.flags(s.b, expunge, 2, 0)
			s.ends(s.b, 3, row{UID: 2, Token: "x"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			tell(s)
			if faults := s.faults(); len(faults) > 0 {
				t.Error(faults)
			}
		})
	}
}

func TestHistoriesThatMustBeRefused(t *testing.T) {
	for _, test := range []struct {
		name string
		why  string
		tell func(*story)
	}{
		{"a lost append", "g-a: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.reads(s.a)
		}},
		{"a UID that was given twice", "g-a: UID 1 was given twice", func(s *story) {
			s.appends(s.a, "x", 1)
			s.appends(s.a, "x", 1)
		}},
		{"a UID that names two messages", "g-a: UID 1 named message x and then y", func(s *story) {
			s.appends(s.a, "x", 1)
			s.reads(s.a, row{UID: 1, Token: "y"})
		}},
		{"a UID below UIDNEXT", "g-a: not linearizable", func(s *story) {
			s.appends(s.a, "x", 2)
			s.appends(s.a, "y", 1)
		}},
		{"a lost flag", "g-a: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.flags(s.a, setFlag, 1, flagged)
			s.reads(s.a, row{UID: 1, Token: "x"})
		}},
		{"HIGHESTMODSEQ that turns back", "g-a: HIGHESTMODSEQ was 7 and 6", func(s *story) {
			s.does(s.a, input{Kind: read}, output{Modseq: 7})
			s.does(s.a, input{Kind: read}, output{Modseq: 6})
		}},
		{"another UIDVALIDITY", "g-a: UIDVALIDITY was 1 and then 2", func(s *story) {
			s.a.valid("1")
			s.a.valid("2")
		}},
		{"a copy with the text of another message", "g-b: UID 1 named message y and then x", func(s *story) {
			s.appends(s.a, "x", 1)
			s.appends(s.a, "y", 2)
			s.transfers(copyMessage, 1, "x", output{UID: 1})
			s.reads(s.b, row{UID: 1, Token: "y"})
		}},
		{"a copy without an answer, with the text of another message", "g-b: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.appends(s.a, "y", 2)
			s.transfers(copyMessage, 1, "x", output{Unknown: true})
			s.reads(s.b, row{UID: 1, Token: "y"})
		}},
		{"a lost copy", "g-b: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(copyMessage, 1, "x", output{UID: 1})
			s.reads(s.b)
		}},
		{"a copy without a flag of its original", "g-b: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.flags(s.a, setFlag, 1, answered)
			s.transfers(copyMessage, 1, "x", output{UID: 1})
			s.reads(s.b, row{UID: 1, Token: "x"})
		}},
		{"a copy with a flag that nobody set", "g-b: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(copyMessage, 1, "x", output{UID: 1})
			s.reads(s.b, row{UID: 1, Token: "x", Flags: answered})
		}},
		{"a copy whose unknown flag is read in two ways", "g-b: not linearizable", func(s *story) {
			s.does(s.a, input{Kind: appendMessage, Token: "x"}, output{Unknown: true})
			s.transfers(copyMessage, 1, "x", output{UID: 1})
			s.reads(s.b, row{UID: 1, Token: "x", Flags: answered})
			s.reads(s.b, row{UID: 1, Token: "x"})
		}},
		{"a COPY of a message that was expunged", "g-a: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.flags(s.a, setFlag, 1, deleted)
			s.flags(s.a, expunge, 1, 0)
			s.transfers(copyMessage, 1, "x", output{UID: 1})
		}},
		{"a COPY that did not find a message", "g-a: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(copyMessage, 1, "x", output{Missing: true})
			s.reads(s.a, row{UID: 1, Token: "x"})
		}},
		{"a MOVE that left the message in both", "g-a: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{UID: 1})
			s.reads(s.a, row{UID: 1, Token: "x"})
		}},
		{"a message that comes back after MOVE", "g-a: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{Unknown: true})
			s.reads(s.a)
			s.reads(s.a, row{UID: 1, Token: "x"})
		}},
		{"two MOVEs of one message", "g-a: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{UID: 1})
			s.transfers(moveMessage, 1, "x", output{UID: 2})
		}},
		{"a MOVE that came too late and left its copy", "g-b: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{UID: 1})
			s.transfers(moveMessage, 1, "x", output{Missing: true})
			s.reads(s.b, row{UID: 1, Token: "x"}, row{UID: 2, Token: "x"})
		}},
		{"a MOVE without an answer that withdrew the only copy", "g-b: not linearizable", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{Unknown: true})
			s.reads(s.b, row{UID: 1, Token: "x"})
			s.reads(s.b)
		}},
		{"a MOVE without an answer that lost the message", "g-a: MOVE of UID 1 (x) had no answer", func(s *story) {
			s.appends(s.a, "x", 1)
			s.transfers(moveMessage, 1, "x", output{Unknown: true})
			s.appends(s.b, "y", 1)
			s.ends(s.a, 2)
			s.ends(s.b, 2, row{UID: 1, Token: "y"})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStory()
			test.tell(s)
			faults := s.faults()
			if len(faults) == 0 || !strings.HasPrefix(faults[0], test.why) {
				t.Errorf("%q is refused for %q", test.why, faults)
			}
		})
	}
}

// A mailbox that cannot be made is a failure of the whole run, though nothing else is amiss.
func TestAFailedCreateFailsTheRun(t *testing.T) {
	s := newStory()
	s.appends(s.a, "x", 1)
	r := &run{start: time.Now(), pairs: []*pair{s.pair}}
	if r.verdict() != 0 {
		t.Fatal("a good run failed")
	}
	s = newStory()
	s.appends(s.a, "x", 1)
	r.pairs = []*pair{s.pair}
	r.fault("CREATE %s failed for a minute", "g")
	if r.verdict() == 0 {
		t.Error("the run passed")
	}
}

func TestBodiesAreComparedWhole(t *testing.T) {
	fetch := func(body string) string {
		return fmt.Sprintf("* 1 FETCH (UID 7 BODY[] {%d}\n%s)", len(body), body)
	}
	r, ok, err := bodyOf(fetch(message("x.1")))
	if err != nil || !ok || r.UID != 7 || r.Token != "x.1" {
		t.Error(r, ok, err)
	}
	whole := message("x.1")
	for name, body := range map[string]string{
		"cut":     whole[:len(whole)-1],
		"longer":  whole + "x",
		"changed": whole[:100] + "?" + whole[101:],
		"another": strings.Replace(whole, "x.1", "x.2", 1),
		"empty":   "",
	} {
		if _, _, err := bodyOf(fetch(body)); err == nil {
			t.Errorf("a body that is %s was accepted", name)
		}
	}
}

func TestCopyUIDIsReadFromBothAnswers(t *testing.T) {
	for _, test := range []struct {
		line     string
		uid      uint32
		expunged bool
	}{
		{"OK [COPYUID 5 3 9] Copied", 9, false},
		{"* OK [COPYUID 5 3 9] Moved", 9, false},
		{"OK These messages were expunged", 0, true},
	} {
		s := newStory()
		w := newWorker(nil, s.pair, 0, 0, "", 1)
		out := w.copied(input{Kind: moveMessage, UID: 3}, []string{"* 2 EXISTS", test.line})
		if out.UID != test.uid || out.Missing != test.expunged || len(s.a.faults) > 0 {
			t.Error(test.line, out, s.a.faults)
		}
	}
	s := newStory()
	newWorker(nil, s.pair, 0, 0, "", 1).copied(input{Kind: moveMessage, UID: 4}, []string{"OK [COPYUID 5 3 9] Copied"})
	if len(s.a.faults) == 0 {
		t.Error("COPYUID named another message, and was accepted")
	}
}
