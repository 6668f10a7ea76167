"""Python's IMAPClient against the server: lists, appends (many at once too), octets, flags, searches, sorts, threads,
copies, moves, Gmail's labels, ACL, quota, IDLE. Arguments: port, user, password, another user. Fails at the first thing amiss."""
import sys
from datetime import datetime, timedelta, timezone

import imapclient

port, user, password, other_user = int(sys.argv[1]), *sys.argv[2:5]


def connected():
    client = imapclient.IMAPClient("127.0.0.1", port, ssl=False, timeout=60)
    client.login(user, password)
    return client


def same(what, got, wanted):
    assert got == wanted, f"{what}: {got!r} instead of {wanted!r}"


plain = imapclient.IMAPClient("127.0.0.1", port, ssl=False, timeout=60)
plain.plain_login(user, password)
plain.logout()

c = connected()
for wanted in ("IMAP4rev1", "IDLE", "MOVE", "UIDPLUS", "NAMESPACE", "SORT", "X-GM-EXT-1"):
    assert c.has_capability(wanted), (wanted, c.capabilities())
same("namespace", c.namespace().personal, (("", "/"),))
assert c.id_({"name": "a test"}), "no answer to ID"
same("sent mail", c.find_special_folder(imapclient.imapclient.SENT), "Sent")

box = "Prüfung & Co/日本"
c.create_folder(box)
c.subscribe_folder(box)
assert c.folder_exists(box)
assert box in [name for _, _, name in c.list_folders()]
assert box in [name for _, _, name in c.list_sub_folders()]

zone = timezone(timedelta(hours=2))
date = datetime(2020, 1, 1, 10, 0, 0, tzinfo=zone)
mail = [
    b"Subject: plain\r\nFrom: =?utf-8?q?Zo=C3=AB?= <zoe@example.net>\r\nMessage-ID: <a@x>\r\n\r\n.\r\n..\r\nFrom here\r\n",
    b"Subject: Re: plain\r\nMessage-ID: <b@x>\r\nIn-Reply-To: <a@x>\r\n\r\nx",
    b"Subject: eight bits\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\xc3\xbc\xc3\x9fe \xff\r\n",
    b"Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b b\"\r\n\r\n"
    b"--b b\r\n\r\none\r\n--b b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntwo\r\n--b b--\r\n",
    b"Subject: long\r\n\r\n" + (b"0123456789" * 7 + b"\r\n") * 3000,
]
for text in mail[:3]:
    assert b"APPENDUID" in c.append(box, text, flags=[imapclient.FLAGGED], msg_time=date)
c.multiappend(box, mail[3:])
selected = c.select_folder(box)
same("messages", selected[b"EXISTS"], 5)
uids = c.search()
same("UIDs", len(uids), 5)

c.normalise_times = False
fetched = c.fetch(uids, ["BODY.PEEK[]", "RFC822.SIZE", "FLAGS", "INTERNALDATE", "ENVELOPE", "BODYSTRUCTURE", "MODSEQ"])
for uid, text in zip(uids, mail):
    same(f"message {uid}", fetched[uid][b"BODY[]"], text)
    same(f"size of {uid}", fetched[uid][b"RFC822.SIZE"], len(text))
same("flags", imapclient.FLAGGED in fetched[uids[0]][b"FLAGS"], True)
same("date", fetched[uids[0]][b"INTERNALDATE"], date)
envelope = fetched[uids[0]][b"ENVELOPE"]
same("subject", envelope.subject, b"plain")
same("sender", (envelope.from_[0].name, envelope.from_[0].mailbox), (b"=?utf-8?q?Zo=C3=AB?=", b"zoe"))
structure = fetched[uids[3]][b"BODYSTRUCTURE"]
assert structure.is_multipart and structure[1].lower() == b"mixed", structure
same("types of parts", [part[0].lower() for part in structure[0]], [b"text", b"message"])
same("part", c.fetch(uids[3], ["BODY.PEEK[2.1]"])[uids[3]][b"BODY[2.1]"], b"two")
same("some octets", c.fetch(uids[4], ["BODY.PEEK[TEXT]<70.4>"])[uids[4]][b"BODY[TEXT]<70>"], b"\r\n01")

same("flagged", c.search(["FLAGGED", "NOT", "DELETED"]), uids[:3])
same("by text", c.search(["BODY", "grüße"], "UTF-8"), uids[2:3])
same("by date", c.search(["BEFORE", datetime(2020, 2, 1).date()]), uids[:3])
same("by either", c.search(["OR", ["SUBJECT", "long"], ["SUBJECT", "eight"]]), [uids[2], uids[4]])
same("sorted", c.sort("REVERSE SIZE", ["SUBJECT", "plain"]), uids[:2])
same("threads", c.thread("REFERENCES", "ALL"), ((uids[0], uids[1]), (uids[2],), (uids[3],), (uids[4],)))

assert {imapclient.SEEN, b"$Label"} <= set(c.add_flags(uids[0], [imapclient.SEEN, "$Label"])[uids[0]])
assert imapclient.FLAGGED not in c.remove_flags(uids[0], imapclient.FLAGGED)[uids[0]]
c.set_flags(uids[1], [imapclient.ANSWERED], silent=True)
same("set", set(c.get_flags(uids[1])[uids[1]]) - {imapclient.RECENT}, {imapclient.ANSWERED})
since = c.fetch(uids[1], ["MODSEQ"])[uids[1]][b"MODSEQ"][0]
c.add_flags(uids[2], [imapclient.SEEN], silent=True)
same("changed since", list(c.fetch(uids, ["FLAGS"], [f"CHANGEDSINCE {since}"])), [uids[2]])

c.copy(uids[:2], "Archive")
c.move(uids[2:4], "Archive")
same("left", c.search(), [uids[0], uids[1], uids[4]])
same("arrived", c.folder_status("Archive", ["MESSAGES", "UNSEEN"]), {b"MESSAGES": 4, b"UNSEEN": 2})

# Only the one that is named goes.
c.delete_messages(uids[:2])
c.uid_expunge(uids[1])
same("one expunged", c.search(), [uids[0], uids[4]])
c.expunge()
same("all expunged", c.search(), [uids[4]])

# Extensions that migrations from Gmail use.
c.add_gmail_labels(uids[4], ["work", "two words", "Grüße (ß)"])
same("labels", set(c.get_gmail_labels(uids[4])[uids[4]]), {"work", "two words", "Grüße (ß)"})
same("found", c.gmail_search("subject:long label:two-words"), [uids[4]])
c.remove_gmail_labels(uids[4], ["work", "Grüße (ß)"])
c.set_gmail_labels(uids[4], ["only this"])
same("set labels", c.get_gmail_labels(uids[4])[uids[4]], ["only this"])
c.remove_gmail_labels(uids[4], ["only this"])
same("no labels", c.get_gmail_labels(uids[4])[uids[4]], [])

assert user.encode() in dict(c.getacl(box)), c.getacl(box)
c.setacl(box, other_user, "lr")
same("rights", dict(c.getacl(box))[other_user.encode()], b"lr")
c.setacl(box, other_user, "-lr")

c.select_folder("Archive")
c.idle()
other = connected()
other.append("Archive", mail[0])
answered = c.idle_check(timeout=60)
assert (5, b"EXISTS") in answered, answered
c.idle_done()
assert b"READ-ONLY" in other.select_folder("Archive", readonly=True)
other.unselect_folder()
other.logout()

c.rename_folder(box, "Prüfung & Co/alt")
assert c.folder_exists("Prüfung & Co/alt") and not c.folder_exists(box)
c.close_folder()
c.delete_folder("Prüfung & Co/alt")
try:
    c.select_folder(box)
    raise SystemExit("a mailbox that was deleted opens")
except imapclient.exceptions.IMAPClientError as error:
    assert "NONEXISTENT" in str(error), error
c.logout()
print("IMAPClient: done")
