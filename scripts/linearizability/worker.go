package main

import (
	"errors"
	"fmt"
	"math/rand"
	"sort"
	"strconv"
	"strings"
	"time"
)

// messagesMax keeps mailboxes small, so that histories are checked fast.
const messagesMax = 8

// lastReader is the id of the first client that reads after all faults were removed.
const lastReader = 1000

// worker is one client: it has one mailbox selected, copies and moves messages to the other one of
// the pair, and does one thing at a time.
type worker struct {
	run      *run
	pair     *pair
	box      *box
	other    *box
	id       int
	client   *client
	selected bool
	random   *rand.Rand
	known    []row
	serial   int
	// deleting is set if somebody deletes the mailbox meanwhile.
	deleting bool
}

// newWorker is a client that has mailbox `at` of a pair selected.
func newWorker(r *run, p *pair, at, id int, address string, seed int64) *worker {
	others := strings.Split(*servers, ",")
	if id >= lastReader {
		// The last reads are of this server.
		others = nil
	}
	return &worker{
		run: r, pair: p, box: p.boxes[at], other: p.boxes[1-at], id: id, random: rand.New(rand.NewSource(seed)),
		client: &client{address: address, others: others},
	}
}

// work does its share of operations, then hangs up.
func (w *worker) work() {
	for n := 0; n < *ops; n++ {
		w.do(w.choose())
		time.Sleep(time.Duration(w.random.Int63n(int64(*think) + 1)))
	}
	w.client.close()
}

// choose picks the next operation from what this client read last.
func (w *worker) choose() input {
	dice := w.random.Intn(100)
	switch {
	case dice < 25 || (dice < 80 && len(w.known) == 0):
		return input{Kind: read}
	case dice < 50 && len(w.known) < messagesMax || len(w.known) == 0:
		w.serial++
		return input{Kind: appendMessage, Token: fmt.Sprintf("%s.%d.%d", w.box.name, w.id, w.serial)}
	}
	r := w.known[w.random.Intn(len(w.known))]
	if dice < 75 {
		if in, ok := w.transferring(r.UID, []kind{copyMessage, moveMessage}[dice%2]); ok && w.other.room() {
			return in
		}
	}
	if r.Flags&deleted != 0 {
		return input{Kind: expunge, UID: r.UID}
	}
	flag := []int{flagged, answered, deleted, deleted}[w.random.Intn(4)]
	if r.Flags&flag != 0 {
		return input{Kind: clearFlag, UID: r.UID, Flag: flag}
	}
	return input{Kind: setFlag, UID: r.UID, Flag: flag}
}

// transferring is a COPY or a MOVE of a message whose text is known.
func (w *worker) transferring(uid uint32, what kind) (in input, ok bool) {
	w.box.mu.Lock()
	defer w.box.mu.Unlock()
	token, ok := w.box.names[uid]
	return input{Kind: what, UID: uid, Token: token}, ok
}

// room says whether a mailbox may get one more message.
func (b *box) room() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size < messagesMax
}

// do does one operation and records it; whether its outcome is known.
func (w *worker) do(in input) bool {
	// Connecting and selecting belong to no operation.
	if err := w.ready(); err != nil {
		time.Sleep(300 * time.Millisecond)
		return false
	}
	op := operation{Client: w.id, Server: w.client.address, Input: in, Call: w.run.now()}
	out, err := w.ask(in)
	op.Return = w.run.now()
	var no errNo
	switch {
	case err == nil:
	case errors.As(err, &no):
		out = output{Unknown: true}
		if !w.mayAnswer(err.Error()) {
			w.box.fault("%s was answered %s", in.Kind, err)
		}
	default:
		out = output{Unknown: true}
		w.client.close()
		w.selected = false
	}
	op.Output = out
	if in.Kind == copyMessage || in.Kind == moveMessage {
		w.pair.record(&transfer{operation: op, from: w.box, to: w.other})
	} else {
		w.box.record(op)
	}
	if in.Kind == read && err == nil {
		w.known = out.Rows
		if w.id < lastReader {
			w.readBodies(w.unnamed())
		}
	}
	return err == nil
}

// mayAnswer says whether a NO is one that a fault of the cluster rightly causes, or another
// client's work: the cluster does not answer, too many changes at once, the message was expunged
// meanwhile, or the mailbox is being deleted.
func (w *worker) mayAnswer(text string) bool {
	codes := []string{"[UNAVAILABLE]", "[INUSE]", "[EXPUNGEISSUED]"}
	if w.deleting {
		codes = append(codes, "[NONEXISTENT]")
	}
	for _, code := range codes {
		if strings.HasPrefix(text, "NO "+code) {
			return true
		}
	}
	return false
}

// unnamed is the messages known to this client whose bodies nobody read yet.
func (w *worker) unnamed() (rows []row) {
	w.box.mu.Lock()
	defer w.box.mu.Unlock()
	for _, r := range w.known {
		if _, ok := w.box.names[r.UID]; !ok {
			rows = append(rows, r)
		}
	}
	return rows
}

func (w *worker) ready() error {
	if w.client.conn == nil {
		w.selected = false
		if err := w.client.connect(); err != nil {
			return err
		}
	}
	if w.selected {
		return nil
	}
	if err := w.client.simple("SELECT " + w.box.name); err != nil {
		w.client.close()
		return err
	}
	w.selected = true
	return nil
}

func (w *worker) ask(in input) (output, error) {
	switch in.Kind {
	case appendMessage:
		text := message(in.Token)
		lines, err := w.client.command(fmt.Sprintf("APPEND %s {%d+}\r\n%s", w.box.name, len(text), text))
		if err != nil {
			return output{}, err
		}
		uid := appendUID.FindStringSubmatch(lines[len(lines)-1])
		if uid == nil {
			w.box.fault("APPEND was answered without APPENDUID")
			return output{Unknown: true}, nil
		}
		w.box.valid(uid[1])
		return output{UID: number(uid[2])}, nil
	case copyMessage, moveMessage:
		lines, err := w.client.command(fmt.Sprintf("UID %s %d %s", in.Kind, in.UID, w.other.name))
		if err != nil {
			return output{}, err
		}
		return w.copied(in, lines), nil
	case setFlag, clearFlag:
		sign := map[kind]string{setFlag: "+", clearFlag: "-"}[in.Kind]
		_, err := w.client.command(fmt.Sprintf("UID STORE %d %sFLAGS.SILENT (%s)", in.UID, sign, flagNames[in.Flag]))
		return output{}, err
	case expunge:
		_, err := w.client.command(fmt.Sprintf("UID EXPUNGE %d", in.UID))
		return output{}, err
	}
	return w.read()
}

// copied is what an OK to COPY or MOVE says: RFC 4315 §3, RFC 6851 §4.3.
func (w *worker) copied(in input, lines []string) output {
	for _, line := range lines {
		found := copyUID.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		w.other.valid(found[1])
		if found[2] != strconv.FormatUint(uint64(in.UID), 10) || strings.ContainsAny(found[3], ":,") {
			w.box.fault("%s of UID %d was answered %s", in.Kind, in.UID, line)
			return output{Unknown: true}
		}
		return output{UID: number(found[3])}
	}
	return output{Missing: true}
}

// read selects the mailbox once more and lists all of it. The rows of one UID FETCH of flags are of
// one moment; HIGHESTMODSEQ is of an earlier one, within the operation. The size distinguishes
// those rows from other reports of the server.
func (w *worker) read() (out output, err error) {
	lines, err := w.client.command("SELECT " + w.box.name)
	if err != nil {
		w.selected = false
		return out, err
	}
	for _, line := range lines {
		if found := modseq.FindStringSubmatch(line); found != nil {
			out.Modseq, _ = strconv.ParseUint(found[1], 10, 64)
		}
		if found := uidNext.FindStringSubmatch(line); found != nil {
			out.Next = number(found[1])
		}
		if found := uidValidity.FindStringSubmatch(line); found != nil {
			w.box.valid(found[1])
		}
	}
	lines, err = w.client.command("UID FETCH 1:* (UID FLAGS RFC822.SIZE)")
	if err != nil {
		return out, err
	}
	for _, line := range lines {
		if r, ok := flagsOf(line); ok {
			out.Rows = append(out.Rows, r)
		}
	}
	sort.Slice(out.Rows, func(a, b int) bool { return out.Rows[a].UID < out.Rows[b].UID })
	return out, nil
}

// readBodies reads the bodies of messages; whether all could be read. A message that was expunged
// since is passed over by the server.
func (w *worker) readBodies(rows []row) bool {
	var uids []string
	for _, r := range rows {
		uids = append(uids, strconv.FormatUint(uint64(r.UID), 10))
	}
	if len(uids) == 0 {
		return true
	}
	if w.ready() != nil {
		return false
	}
	lines, err := w.client.command("UID FETCH " + strings.Join(uids, ",") + " (UID BODY.PEEK[])")
	var no errNo
	if errors.As(err, &no) {
		if !w.mayAnswer(err.Error()) {
			w.box.fault("reading bodies was answered %v", err)
		}
		return false
	}
	if err != nil {
		w.client.close()
		return false
	}
	read := 0
	for _, line := range lines {
		r, ok, err := bodyOf(line)
		if err != nil {
			w.box.fault("%v", err)
		}
		if ok {
			w.box.named(r.UID, r.Token)
			read++
		}
	}
	return read == len(rows)
}
