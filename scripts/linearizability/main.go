// Program linearizability lets clients work on mailboxes that two servers share, and checks what they saw.
//
// Each mailbox has a few clients, spread over the servers. Every client does one thing at a time: append, set or clear a flag,
// mark as deleted, expunge, read all. Each operation is recorded with its invocation and its completion. At the end each mailbox's
// history is checked for linearizability by Porcupine against the model in model.go. Then every mailbox is read once more from
// each server, and compared with what the model allows.
//
// Usage: linearizability -servers HOST:PORT,HOST:PORT -seconds N [-stop FILE] …; scripts/cluster-proof runs it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
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
	groups   = flag.Int("groups", 4, "mailboxes in use at a time")
	clients  = flag.Int("clients", 4, "clients of a mailbox")
	ops      = flag.Int("ops", 25, "operations of a client on one mailbox")
	think    = flag.Duration("think", 20*time.Millisecond, "longest pause of a client between two operations")
	timeout  = flag.Duration("timeout", 2*time.Minute, "after this an operation's outcome is unknown")
	stop     = flag.String("stop", "", "no new mailbox is begun once this file is there")
	healed   = flag.String("healed", "", "the last reads wait for this file")
	seed     = flag.Int64("seed", 1, "of the choice of operations")
	out      = flag.String("out", ".", "folder for histories that are not linearizable")
	patience = flag.Duration("check", 2*time.Minute, "longest time for checking one history")
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
				run.mailbox(fmt.Sprintf("g%d-%d", group, round), addresses, *seed+int64(group)*1_000_000+int64(round)*1000)
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
	start time.Time
	mu    sync.Mutex
	boxes []*box
}

// box is one mailbox and its history.
type box struct {
	name    string
	mu      sync.Mutex
	history []operation
	// names holds the token of each UID whose message was acknowledged or read.
	names  map[uint32]string
	faults []string
}

// operation is one call, with what was asked and what came back.
type operation struct {
	Client int
	Server string
	Call   int64
	Return int64
	Input  input
	Output output
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

// mailbox makes one mailbox, and lets its clients work.
func (r *run) mailbox(name string, addresses []string, seed int64) {
	b := &box{name: name, names: map[uint32]string{}}
	maker := &client{address: addresses[0], others: addresses}
	if !maker.until(func() error { return maker.simple("CREATE " + name) }) {
		return
	}
	maker.close()
	r.mu.Lock()
	r.boxes = append(r.boxes, b)
	r.mu.Unlock()
	var working sync.WaitGroup
	for n := 0; n < *clients; n++ {
		working.Add(1)
		go func() {
			defer working.Done()
			worker := newWorker(r, b, n, addresses[n%len(addresses)], seed+int64(n))
			worker.work()
		}()
	}
	working.Wait()
}

// lastReads reads every mailbox from every server, after all faults were mended. What is read is the end of its history.
func (r *run) lastReads(addresses []string) {
	for n, address := range addresses {
		for _, b := range r.boxes {
			worker := newWorker(r, b, lastReader+n, address, 1)
			done := false
			for try := 0; try < 20 && !done; try++ {
				done = worker.do(input{Kind: read}) && worker.readBodies(worker.known)
				if !done {
					time.Sleep(time.Second)
				}
			}
			if !done {
				b.fault("not every message can be read from %s after all faults were mended", address)
			}
			worker.client.close()
		}
	}
}

func (b *box) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

func (b *box) record(op operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = append(b.history, op)
}

// verdict checks all histories, prints what was found, and answers with the exit status.
func (r *run) verdict() int {
	counts, bad, undecided := map[string]int{}, 0, 0
	for _, b := range r.boxes {
		for _, op := range b.history {
			outcome := "ok"
			if op.Output.Unknown {
				outcome = "unknown"
			} else if op.Output.Refused {
				outcome = "refused"
			}
			counts[op.Input.Kind.String()+" "+outcome]++
		}
		b.checkNumbers()
		result, info := porcupine.CheckOperationsVerbose(model(), b.operations(), *patience)
		switch result {
		case porcupine.Illegal:
			b.fault("its history is not linearizable")
			file := filepath.Join(*out, b.name+".html")
			if err := porcupine.VisualizePath(model(), info, file); err == nil {
				b.fault("see %s", file)
			}
		case porcupine.Unknown:
			undecided++
		}
		if len(b.faults) > 0 {
			bad++
			b.save()
		}
		for _, fault := range b.faults {
			fmt.Printf("VIOLATION: mailbox %s: %s\n", b.name, fault)
		}
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
	fmt.Printf("linearizability: %d operations on %d mailboxes: %d mailboxes violate the model, %d histories undecided\n",
		total, len(r.boxes), bad, undecided)
	if bad > 0 || undecided > 0 || total == 0 {
		return 1
	}
	return 0
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
