// Package main drives the server with go-imap v2: lists, appends, octets, structures, flags,
// searches, sorts, threads, copies, moves, quota, metadata, IDLE, several commands in flight.
// Arguments: port, user, password. Ends at the first thing amiss.
package main

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"
)

var mail = []string{
	"Subject: plain\r\nFrom: =?utf-8?q?Zo=C3=AB?= <zoe@example.net>\r\nMessage-ID: <a@x>\r\n\r\n.\r\n..\r\nFrom here\r\n",
	"Subject: Re: plain\r\nMessage-ID: <b@x>\r\nIn-Reply-To: <a@x>\r\n\r\nx",
	"Subject: eight bits\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\xc3\xbc\xc3\x9fe \xff\r\n",
	"Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b b\"\r\n\r\n" +
		"--b b\r\n\r\none\r\n--b b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntwo\r\n" +
		"--b b\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\nAAECAwD/\r\n--b b--\r\n",
	"Subject: long\r\n\r\n" + strings.Repeat(strings.Repeat("0123456789", 7)+"\r\n", 3000),
}

func done(what string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		os.Exit(1)
	}
}

func same(what string, got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		done(what, fmt.Errorf("%v instead of %v", got, wanted))
	}
}

func connected(handler *imapclient.UnilateralDataHandler) *imapclient.Client {
	client, err := imapclient.DialInsecure("127.0.0.1:"+os.Args[1], &imapclient.Options{UnilateralDataHandler: handler})
	done("connect", err)
	done("greeting", client.WaitGreeting())
	return client
}

func loggedIn(handler *imapclient.UnilateralDataHandler) *imapclient.Client {
	client := connected(handler)
	done("LOGIN", client.Login(os.Args[2], os.Args[3]).Wait())
	// go-imap writes names in UTF-8 to a server that has IMAP4rev2, but does not enable it by itself
	// (RFC 9051 §6.3.1).
	_, err := client.Enable(imap.CapIMAP4rev2).Wait()
	done("ENABLE", err)
	return client
}

func appended(client *imapclient.Client, box, text string, options *imap.AppendOptions) imap.UID {
	command := client.Append(box, int64(len(text)), options)
	_, err := command.Write([]byte(text))
	done("APPEND", err)
	done("APPEND", command.Close())
	data, err := command.Wait()
	done("APPEND", err)
	return data.UID
}

func flags(message *imapclient.FetchMessageBuffer) string {
	var names []string
	for _, flag := range message.Flags {
		if flag != "\\Recent" {
			names = append(names, string(flag))
		}
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}

func fetched(client *imapclient.Client, set imap.NumSet, options *imap.FetchOptions) []*imapclient.FetchMessageBuffer {
	messages, err := client.Fetch(set, options).Collect()
	done("FETCH", err)
	return messages
}

func found(client *imapclient.Client, criteria *imap.SearchCriteria) []imap.UID {
	data, err := client.UIDSearch(criteria, nil).Wait()
	done("SEARCH", err)
	return data.AllUIDs()
}

func store(client *imapclient.Client, uid imap.UID, op imap.StoreFlagsOp, flags ...imap.Flag) []*imapclient.FetchMessageBuffer {
	messages, err := client.Store(imap.UIDSetNum(uid), &imap.StoreFlags{Op: op, Flags: flags}, nil).Collect()
	done("STORE", err)
	return messages
}

func mechanisms() {
	client := connected(nil)
	done("PLAIN", client.Authenticate(sasl.NewPlainClient("", os.Args[2], os.Args[3])))
	done("LOGOUT", client.Logout().Wait())
	client = connected(nil)
	if client.Authenticate(sasl.NewPlainClient("", os.Args[2], "wrong")) == nil {
		done("a wrong password", fmt.Errorf("logs in"))
	}
	client.Close()
}

func mailboxes(client *imapclient.Client, box string) {
	done("CREATE", client.Create(box, nil).Wait())
	done("SUBSCRIBE", client.Subscribe(box).Wait())
	names, err := client.Namespace().Wait()
	done("NAMESPACE", err)
	same("namespace", names.Personal, []imap.NamespaceDescriptor{{Prefix: "", Delim: '/'}})
	listed, err := client.List("", "*", &imap.ListOptions{
		ReturnSubscribed: true, ReturnChildren: true, ReturnStatus: &imap.StatusOptions{NumMessages: true},
	}).Collect()
	done("LIST", err)
	isThere := false
	for _, each := range listed {
		if each.Mailbox == box {
			isThere = true
			same("messages in LIST", *each.Status.NumMessages, uint32(0))
			same("subscribed", strings.Contains(fmt.Sprint(each.Attrs), "\\Subscribed"), true)
		}
	}
	same("listed", isThere, true)
	text := []byte("a\r\nb")
	done("SETMETADATA", client.SetMetadata(box, map[string]*[]byte{"/private/comment": &text}).Wait())
	kept, err := client.GetMetadata(box, []string{"/private/comment"}, nil).Wait()
	done("GETMETADATA", err)
	same("comment", string(*kept.Entries["/private/comment"]), string(text))
	_, err = client.GetQuotaRoot(box).Wait()
	done("GETQUOTAROOT", err)
}

func messages(client *imapclient.Client, box string) {
	date := time.Date(2020, 1, 1, 10, 0, 0, 0, time.FixedZone("", 2*3600))
	for at, text := range mail {
		uid := appended(client, box, text, &imap.AppendOptions{Flags: []imap.Flag{imap.FlagFlagged, "$Kept"}, Time: date})
		same("UID", uid, imap.UID(at+1))
	}
	selected, err := client.Select(box, nil).Wait()
	done("SELECT", err)
	same("EXISTS", selected.NumMessages, uint32(len(mail)))
	whole, binary := &imap.FetchItemBodySection{Peek: true}, &imap.FetchItemBinarySection{Part: []int{3}, Peek: true}
	some := &imap.FetchItemBodySection{Specifier: imap.PartSpecifierText, Partial: &imap.SectionPartial{Offset: 70, Size: 4}, Peek: true}
	subject := &imap.FetchItemBodySection{Specifier: imap.PartSpecifierHeader, HeaderFields: []string{"Subject"}, Peek: true}
	every := fetched(client, imap.SeqSet{{Start: 1, Stop: 0}}, &imap.FetchOptions{
		UID: true, Flags: true, InternalDate: true, RFC822Size: true, Envelope: true, ModSeq: true,
		BodyStructure: &imap.FetchItemBodyStructure{Extended: true}, BodySection: []*imap.FetchItemBodySection{whole, some, subject},
	})
	same("messages", len(every), len(mail))
	for at, message := range every {
		same("octets", string(message.FindBodySection(whole)), mail[at])
		same("size", message.RFC822Size, int64(len(mail[at])))
		same("flags", flags(message), "$Kept \\Flagged")
		same("date", message.InternalDate.Equal(date), true)
		same("mod-sequence", message.ModSeq > 0, true)
	}
	same("some octets", string(every[4].FindBodySection(some)), "\r\n01")
	same("subject field", string(every[3].FindBodySection(subject)), "Subject: parts\r\n\r\n")
	same("name", every[0].Envelope.From[0].Name, "Zoë")
	same("Message-ID", every[0].Envelope.MessageID, "a@x")
	var kinds []string
	every[3].BodyStructure.Walk(func(path []int, part imap.BodyStructure) bool {
		kinds = append(kinds, fmt.Sprint(path, part.MediaType()))
		return true
	})
	same("parts", kinds, []string{"[]multipart/mixed", "[1]text/plain", "[2]message/rfc822", "[3]application/octet-stream"})
	decoded := fetched(client, imap.UIDSetNum(4), &imap.FetchOptions{BinarySection: []*imap.FetchItemBinarySection{binary}})
	same("decoded", decoded[0].FindBinarySection(binary), []byte{0, 1, 2, 3, 0, 255})
}

func searches(client *imapclient.Client) {
	field := func(name, value string) imap.SearchCriteria {
		return imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: name, Value: value}}}
	}
	eight, long := field("Subject", "eight"), field("Subject", "long")
	same("by subject", found(client, &eight), []imap.UID{3})
	same("by text", found(client, &imap.SearchCriteria{Body: []string{"grüße"}}), []imap.UID{3})
	same("by either", found(client, &imap.SearchCriteria{Or: [][2]imap.SearchCriteria{{eight, long}}}), []imap.UID{3, 5})
	same("by not", found(client, &imap.SearchCriteria{Not: []imap.SearchCriteria{eight}, Smaller: 1000}), []imap.UID{1, 2, 4})
	data, err := client.Search(&imap.SearchCriteria{Flag: []imap.Flag{"$Kept"}}, &imap.SearchOptions{ReturnMin: true, ReturnMax: true, ReturnCount: true}).Wait()
	done("ESEARCH", err)
	same("ESEARCH", []uint32{data.Min, data.Max, data.Count}, []uint32{1, 5, 5})
	sorted, err := client.UIDSort(&imapclient.SortOptions{
		SearchCriteria: &imap.SearchCriteria{}, SortCriteria: []imapclient.SortCriterion{{Key: imapclient.SortKeySize, Reverse: true}},
	}).Wait()
	done("SORT", err)
	same("sorted", sorted, []uint32{5, 4, 1, 3, 2})
	threads, err := client.UIDThread(&imapclient.ThreadOptions{Algorithm: imap.ThreadReferences, SearchCriteria: &imap.SearchCriteria{}}).Wait()
	done("THREAD", err)
	same("threads", len(threads), 4)
	same("a thread", threads[0].Chain, []uint32{1, 2})
}

func changes(client *imapclient.Client, box string) {
	same("added", flags(store(client, 1, imap.StoreFlagsAdd, imap.FlagSeen)[0]), "$Kept \\Flagged \\Seen")
	same("removed", flags(store(client, 1, imap.StoreFlagsDel, imap.FlagFlagged)[0]), "$Kept \\Seen")
	same("set", flags(store(client, 2, imap.StoreFlagsSet, imap.FlagAnswered)[0]), "\\Answered")
	seen := fetched(client, imap.UIDSetNum(2), &imap.FetchOptions{ModSeq: true})[0].ModSeq
	store(client, 3, imap.StoreFlagsAdd, imap.FlagDraft)
	newer := fetched(client, imap.UIDSet{{Start: 1, Stop: 0}}, &imap.FetchOptions{UID: true, ChangedSince: seen})
	same("changed since", []any{len(newer), newer[0].UID}, []any{1, imap.UID(3)})
	copied, err := client.Copy(imap.UIDSetNum(1, 2), "Archive").Wait()
	done("COPY", err)
	same("copied", copied.SourceUIDs.String(), "1:2")
	moved, err := client.Move(imap.UIDSetNum(3), "Archive").Wait()
	done("MOVE", err)
	same("moved", fmt.Sprint(moved.SourceUIDs), "3")
	same("left", found(client, &imap.SearchCriteria{}), []imap.UID{1, 2, 4, 5})
	store(client, 1, imap.StoreFlagsAdd, imap.FlagDeleted)
	store(client, 2, imap.StoreFlagsAdd, imap.FlagDeleted)
	expunged, err := client.UIDExpunge(imap.UIDSetNum(2)).Collect()
	done("UID EXPUNGE", err)
	same("one expunged", expunged, []uint32{2})
	_, err = client.Expunge().Collect()
	done("EXPUNGE", err)
	same("all expunged", found(client, &imap.SearchCriteria{}), []imap.UID{4, 5})
	status, err := client.Status("Archive", &imap.StatusOptions{NumMessages: true, NumUnseen: true, Size: true}).Wait()
	done("STATUS", err)
	same("STATUS", []any{*status.NumMessages, *status.NumUnseen, *status.Size}, []any{uint32(3), uint32(2), int64(len(mail[0]) + len(mail[1]) + len(mail[2]))})
}

func idle(box string) {
	heard := make(chan string, 16)
	client := loggedIn(&imapclient.UnilateralDataHandler{
		Mailbox: func(data *imapclient.UnilateralDataMailbox) {
			if data.NumMessages != nil {
				heard <- fmt.Sprint("exists ", *data.NumMessages)
			}
		},
		Expunge: func(number uint32) { heard <- fmt.Sprint("expunge ", number) },
	})
	_, err := client.Select(box, nil).Wait()
	done("SELECT", err)
	idling, err := client.Idle()
	done("IDLE", err)
	other := loggedIn(nil)
	_, err = other.Select(box, nil).Wait()
	done("SELECT", err)
	appended(other, box, mail[0], nil)
	same("idle", <-heard, "exists 3")
	store(other, 4, imap.StoreFlagsAdd, imap.FlagDeleted)
	_, err = other.Expunge().Collect()
	done("EXPUNGE", err)
	same("idle", <-heard, "expunge 1")
	done("DONE", idling.Close())
	done("IDLE", idling.Wait())
	done("LOGOUT", other.Logout().Wait())
	done("LOGOUT", client.Logout().Wait())
}

// pipelined sends everything before it waits for anything.
func pipelined(box string) {
	client := connected(nil)
	login, enabled, selected := client.Login(os.Args[2], os.Args[3]), client.Enable(imap.CapIMAP4rev2), client.Select(box, nil)
	search := client.UIDSearch(&imap.SearchCriteria{}, nil)
	whole := &imap.FetchItemBodySection{Peek: true}
	fetch := client.Fetch(imap.SeqSetNum(1), &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{whole}})
	done("LOGIN", login.Wait())
	_, err := enabled.Wait()
	done("ENABLE", err)
	_, err = selected.Wait()
	done("SELECT", err)
	data, err := search.Wait()
	done("SEARCH", err)
	same("pipelined search", data.AllUIDs(), []imap.UID{5, 6})
	got, err := fetch.Collect()
	done("FETCH", err)
	same("pipelined octets", string(got[0].FindBodySection(whole)), mail[4])
	done("LOGOUT", client.Logout().Wait())
}

func main() {
	time.AfterFunc(2*time.Minute, func() { done("the whole", fmt.Errorf("takes too long")) })
	box := "Prüfung/Go"
	mechanisms()
	client := loggedIn(nil)
	mailboxes(client, box)
	messages(client, box)
	searches(client)
	changes(client, box)
	idle(box)
	pipelined(box)
	done("CLOSE", client.UnselectAndExpunge().Wait())
	done("RENAME", client.Rename(box, box+" alt", nil).Wait())
	done("DELETE", client.Delete(box+" alt").Wait())
	if _, err := client.Select(box, nil).Wait(); err == nil || !strings.Contains(err.Error(), "NONEXISTENT") {
		done("a mailbox that was deleted", fmt.Errorf("%v", err))
	}
	done("LOGOUT", client.Logout().Wait())
	fmt.Println("go-imap: done")
}
