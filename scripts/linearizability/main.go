// Program linearizability lets clients work on mailboxes that two servers share, and checks what
// they saw.
//
// Mailboxes are in pairs. Each has a few clients, spread over the servers. Every client does one
// thing at a time: append, set or clear a flag, mark as deleted, expunge, read all, copy or move a
// message to the other mailbox of the pair. Each operation is recorded with its invocation and its
// completion. Some mailboxes are deleted at the end, while messages are copied out of them.
//
// When all is over, each mailbox is read once more from each server, bodies included. Then its
// history is checked for linearizability by Porcupine against the model in model.go; history.go
// says what a COPY and a MOVE are there.
//
// Usage: linearizability -servers HOST:PORT,HOST:PORT -seconds N [-stop FILE] …;
// scripts/cluster-proof runs it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	servers  = flag.String("servers", "", "addresses of IMAP over TLS, separated by commas")
	user     = flag.String("user", "", "the account")
	password = flag.String("password", "password4tests", "its password")
	seconds  = flag.Int("seconds", 120, "how long new mailboxes are begun")
	groups   = flag.Int("groups", 3, "pairs of mailboxes in use at a time")
	clients  = flag.Int("clients", 3, "clients of a mailbox")
	ops      = flag.Int("ops", 25, "operations of a client on one mailbox")
	think    = flag.Duration("think", 20*time.Millisecond, "longest pause of a client between two operations")
	timeout  = flag.Duration("timeout", 2*time.Minute, "after this an operation's outcome is unknown")
	stop     = flag.String("stop", "", "no new mailbox is begun once this file is there")
	healed   = flag.String("healed", "", "the last reads wait for this file")
	seed     = flag.Int64("seed", 1, "of the choice of operations")
	out      = flag.String("out", ".", "folder for histories that are not linearizable")
	checkMax = flag.Duration("check", 2*time.Minute, "longest time for checking one history")
)

func main() {
	flag.Parse()
	addresses := strings.Split(*servers, ",")
	run := &run{start: time.Now()}
	var working sync.WaitGroup
	for group := 0; group < *groups; group++ {
		working.Add(1)
		go func() {
			defer working.Done()
			for round := 0; run.goesOn(); round++ {
				run.work(fmt.Sprintf("g%d-%d", group, round), addresses, *seed+int64(group)*1_000_000+int64(round)*1000)
			}
		}()
	}
	working.Wait()
	fmt.Printf("linearizability: %4.0f s  clients have ended\n", time.Since(run.start).Seconds())
	for *healed != "" {
		if _, err := os.Stat(*healed); err == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	run.lastReads(addresses)
	os.Exit(run.verdict())
}

// run is everything that was recorded.
type run struct {
	start  time.Time
	mu     sync.Mutex
	pairs  []*pair
	faults []string
}

func (r *run) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

func (r *run) goesOn() bool {
	if *stop != "" {
		if _, err := os.Stat(*stop); err == nil {
			return false
		}
	}
	return time.Since(r.start) < time.Duration(*seconds)*time.Second
}

// now is nanoseconds of a clock that only goes forward.
func (r *run) now() int64 { return time.Since(r.start).Nanoseconds() }

// work makes two mailboxes, and lets their clients work.
func (r *run) work(name string, addresses []string, seed int64) {
	p := newPair(name)
	for _, b := range p.boxes {
		maker := &client{address: addresses[0], others: addresses}
		err := maker.until("ALREADYEXISTS", func() error { return maker.simple("CREATE " + b.name) })
		maker.close()
		if err != nil {
			r.fault("CREATE %s failed for a minute: %v", b.name, err)
			return
		}
	}
	r.mu.Lock()
	r.pairs = append(r.pairs, p)
	r.mu.Unlock()
	var working sync.WaitGroup
	for n := 0; n < 2**clients; n++ {
		working.Add(1)
		go func() {
			defer working.Done()
			at := n % 2
			newWorker(r, p, at, n, addresses[(n/2+at)%len(addresses)], seed+int64(n)).work()
		}()
	}
	working.Wait()
	random := rand.New(rand.NewSource(seed - 1))
	if random.Intn(2) == 0 {
		r.deleteOne(p, addresses, random)
	}
}

// copiesMax is how many messages are copied out of a mailbox that is being deleted.
const copiesMax = 4

// deleteOne deletes a mailbox through one server, while another client copies messages out of it.
// The copies then have the bodies alone, and the last reads read them.
func (r *run) deleteOne(p *pair, addresses []string, random *rand.Rand) {
	at, server := random.Intn(2), random.Intn(len(addresses))
	copier := newWorker(r, p, at, 2**clients, addresses[(server+1)%len(addresses)], 1)
	copier.deleting = true
	copier.do(input{Kind: read})
	var deleting sync.WaitGroup
	deleting.Add(1)
	wait := time.Duration(random.Int63n(int64(150 * time.Millisecond)))
	go func() {
		defer deleting.Done()
		time.Sleep(wait)
		remover := &client{address: addresses[server], others: addresses}
		err := remover.until("NONEXISTENT", func() error { return remover.simple("DELETE " + copier.box.name) })
		remover.close()
		if err != nil {
			r.fault("DELETE %s failed for a minute: %v", copier.box.name, err)
			return
		}
		copier.box.mu.Lock()
		defer copier.box.mu.Unlock()
		copier.box.deleted = true
	}()
	for n, known := range copier.known {
		in, ok := copier.transferring(known.UID, copyMessage)
		if ok && !copier.do(in) || n == copiesMax {
			break
		}
	}
	copier.client.close()
	deleting.Wait()
}

// lastReads reads every mailbox from every server, after all faults were removed. What is read is
// the end of its history.
func (r *run) lastReads(addresses []string) {
	for n, address := range addresses {
		for _, p := range r.pairs {
			for at, b := range p.boxes {
				worker := newWorker(r, p, at, lastReader+n, address, 1)
				if b.deleted {
					worker.checkDeleted()
				} else {
					worker.lastRead()
				}
				worker.client.close()
			}
		}
	}
}

// lastRead reads all, with bodies.
func (w *worker) lastRead() {
	for try := 0; try < 20; try++ {
		if w.do(input{Kind: read}) && w.readBodies(w.known) {
			last := w.box.history[len(w.box.history)-1].Output
			w.box.last = &last
			return
		}
		time.Sleep(time.Second)
	}
	w.box.fault("not every message can be read from %s after all faults were removed", w.client.address)
}

// checkDeleted checks that a mailbox no longer exists.
func (w *worker) checkDeleted() {
	var err error
	for try := 0; try < 20; try++ {
		if err = w.client.simple("SELECT " + w.box.name); err != nil && strings.HasPrefix(err.Error(), "NO [NONEXISTENT]") {
			return
		}
		w.client.close()
		time.Sleep(time.Second)
	}
	w.box.fault("it was deleted, and SELECT at %s was answered: %v", w.client.address, err)
}

// verdict checks all histories, prints what was found, and answers with the exit status.
func (r *run) verdict() int {
	counts, boxes, deleted, bad, undecided := map[string]int{}, 0, 0, 0, 0
	for _, p := range r.pairs {
		p.count(counts)
		p.check(func(b *box) {
			if !b.decide() {
				undecided++
			}
		})
		for _, b := range p.boxes {
			boxes++
			if b.deleted {
				deleted++
			}
			if len(b.faults) > 0 {
				bad++
				b.save()
			}
			for _, fault := range b.faults {
				fmt.Printf("VIOLATION: mailbox %s: %s\n", b.name, fault)
			}
		}
	}
	for _, fault := range r.faults {
		fmt.Printf("VIOLATION: %s\n", fault)
	}
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	sort.Strings(names)
	total := 0
	for _, name := range names {
		fmt.Printf("linearizability: %7d  %s\n", counts[name], name)
		total += counts[name]
	}
	fmt.Printf("linearizability: %d operations on %d mailboxes, %d of them deleted: %d mailboxes violate the model, %d histories undecided\n",
		total, boxes, deleted, bad, undecided)
	if bad > 0 || undecided > 0 || total == 0 || len(r.faults) > 0 {
		return 1
	}
	return 0
}

// count counts the operations of clients, by kind and outcome.
func (p *pair) count(counts map[string]int) {
	note := func(op operation) {
		outcome := "ok"
		switch {
		case op.Output.Unknown:
			outcome = "unknown"
		case op.Output.Missing:
			outcome = "not there"
		}
		counts[op.Input.Kind.String()+" "+outcome]++
	}
	for _, b := range p.boxes {
		for _, op := range b.history {
			note(op)
		}
	}
	for _, t := range p.transfers {
		note(t.operation)
	}
}

// check does all checks of a pair; decide is the one of a mailbox's history.
func (p *pair) check(decide func(*box)) {
	p.divide()
	for _, b := range p.boxes {
		b.checkNumbers()
	}
	p.checkMoves()
	for _, b := range p.boxes {
		decide(b)
	}
}

// decide checks a history for linearizability; false if that takes too long.
func (b *box) decide() bool {
	result, info := porcupine.CheckOperationsVerbose(model(), b.operations(), *checkMax)
	if result == porcupine.Illegal {
		b.fault("its history is not linearizable")
		file := filepath.Join(*out, b.name+".html")
		if err := porcupine.VisualizePath(model(), info, file); err == nil {
			b.fault("see %s", file)
		}
	}
	return result != porcupine.Unknown
}

// save writes a history down, one operation a line, for the examination of a violation.
func (b *box) save() {
	file, err := os.Create(filepath.Join(*out, b.name+".jsonl"))
	if err != nil {
		return
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	for _, op := range b.history {
		_ = lines.Encode(op)
	}
}
