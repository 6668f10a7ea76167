package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// client is one connection to one server, as much of IMAP as the workload needs.
type client struct {
	address string
	others  []string
	tries   int
	conn    net.Conn
	in      *bufio.Reader
	tag     int
}

// errNo is a tagged NO or BAD: the text after the tag.
type errNo string

func (e errNo) Error() string { return string(e) }

// until repeats an action, on another server too, until it succeeds; an error if it did not within
// a minute. An answer with the code `done` means that an earlier try, whose answer was lost,
// succeeded.
func (c *client) until(done string, action func() error) error {
	for began := time.Now(); ; {
		err := action()
		var no errNo
		if err == nil || errors.As(err, &no) && strings.HasPrefix(err.Error(), "NO ["+done+"]") {
			return nil
		}
		c.close()
		if time.Since(began) > time.Minute {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// connect makes the connection if there is none. A server that does not answer is tried twice, then
// the next one.
func (c *client) connect() error {
	if c.conn != nil {
		return nil
	}
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	// The server made its own certificate; who it is does not matter here.
	conn, err := tls.DialWithDialer(dialer, "tcp", c.address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		if c.tries++; c.tries >= 2 && len(c.others) > 0 {
			c.tries = 0
			c.address = c.others[(slices.Index(c.others, c.address)+1)%len(c.others)]
		}
		return err
	}
	c.conn, c.in = conn, bufio.NewReaderSize(conn, 64<<10)
	if _, err = c.line(); err == nil {
		_, err = c.command("LOGIN " + *user + " " + *password)
	}
	if err != nil {
		c.close()
	}
	return err
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// line is one response: a line, the literals in it, and what follows them.
func (c *client) line() (string, error) {
	var whole strings.Builder
	_ = c.conn.SetReadDeadline(time.Now().Add(*timeout))
	for {
		text, err := c.in.ReadString('\n')
		if err != nil {
			return "", err
		}
		text = strings.TrimSuffix(text, "\r\n")
		whole.WriteString(text)
		open := strings.LastIndexByte(text, '{')
		if open < 0 || !strings.HasSuffix(text, "}") {
			return whole.String(), nil
		}
		size, err := strconv.Atoi(text[open+1 : len(text)-1])
		if err != nil {
			return whole.String(), nil
		}
		literal := make([]byte, size)
		if _, err := io.ReadFull(c.in, literal); err != nil {
			return "", err
		}
		whole.WriteByte('\n')
		whole.Write(literal)
	}
}

// command sends a command, which may hold whole literals, and answers with the responses, the
// tagged one last.
func (c *client) command(text string) ([]string, error) {
	c.tag++
	tag := fmt.Sprintf("t%d ", c.tag)
	_ = c.conn.SetWriteDeadline(time.Now().Add(*timeout))
	if _, err := io.WriteString(c.conn, tag+text+"\r\n"); err != nil {
		return nil, err
	}
	var lines []string
	for {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(line, "* BYE") {
			return nil, errors.New(line)
		}
		rest, tagged := strings.CutPrefix(line, tag)
		if !tagged {
			lines = append(lines, line)
			continue
		}
		if !strings.HasPrefix(rest, "OK") {
			return nil, errNo(rest)
		}
		return append(lines, rest), nil
	}
}

// simple is a command on a connection that is made if there is none.
func (c *client) simple(text string) error {
	if err := c.connect(); err != nil {
		return err
	}
	_, err := c.command(text)
	return err
}

// message is the text of a message: any part of it shows which it is.
func message(token string) string {
	line := strings.Repeat(token+" ", 12) + "\r\n"
	return "Subject: " + token + "\r\n\r\n" + strings.Repeat(line, 20)
}

var (
	appendUID = regexp.MustCompile(`^OK \[APPENDUID (\d+) (\d+)\]`)
	// COPY's is tagged, MOVE's is not.
	copyUID     = regexp.MustCompile(`^(?:\* )?OK \[COPYUID (\d+) (\S+) (\S+)\]`)
	modseq      = regexp.MustCompile(`\[HIGHESTMODSEQ (\d+)\]`)
	uidNext     = regexp.MustCompile(`\[UIDNEXT (\d+)\]`)
	uidValidity = regexp.MustCompile(`\[UIDVALIDITY (\d+)\]`)
	fetchUID    = regexp.MustCompile(`^\* \d+ FETCH \(.*?\bUID (\d+)`)
	fetchFlag   = regexp.MustCompile(`\bFLAGS \(([^)]*)\)`)
	subject     = regexp.MustCompile(`\nSubject: (\S+)\r\n`)
)

// flagsOf reads a FETCH response that has UID, flags and size, as the answer to a read has; ok is
// false for any other response.
func flagsOf(line string) (r row, ok bool) {
	uid, flags := fetchUID.FindStringSubmatch(line), fetchFlag.FindStringSubmatch(line)
	if uid == nil || flags == nil || !strings.Contains(line, "RFC822.SIZE") {
		return r, false
	}
	r.UID = number(uid[1])
	for bit, name := range flagNames {
		if strings.Contains(flags[1], name) {
			r.Flags |= bit
		}
	}
	return r, true
}

// bodyOf reads a FETCH response that has a body, and compares all of it; ok is false for any other
// response.
func bodyOf(line string) (r row, ok bool, err error) {
	head := line
	if at := strings.IndexByte(line, '\n'); at >= 0 {
		head = line[:at]
	}
	if !strings.Contains(head, " FETCH (") || !strings.Contains(head, "BODY[]") {
		return r, false, nil
	}
	uid, token := fetchUID.FindStringSubmatch(head), subject.FindStringSubmatch(line)
	if uid == nil || token == nil {
		return r, false, fmt.Errorf("a FETCH without UID or subject: %.200q", line)
	}
	r = row{UID: number(uid[1]), Token: token[1]}
	open := strings.LastIndexByte(head, '{')
	size, err := strconv.Atoi(strings.TrimSuffix(head[open+1:], "}"))
	if body := line[len(head)+1:]; err != nil || size > len(body) || body[:size] != message(r.Token) {
		return r, false, fmt.Errorf("the body of UID %d is not the message %s", r.UID, r.Token)
	}
	return r, true, nil
}

// number reads a UID. A missing number becomes 0, which no message has.
func number(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32)
	return uint32(n)
}
