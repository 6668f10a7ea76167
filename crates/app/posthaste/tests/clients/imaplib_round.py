"""A full round with Python's imaplib: create, append, list, fetch, flag, copy, move, search, expunge, idle."""
import imaplib, re, sys

port, user, password = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def ok(answer):
    status, data = answer
    assert status == "OK", answer
    return data


def login():
    client = imaplib.IMAP4("127.0.0.1", port, timeout=60)
    ok(client.login(user, password))
    return client


def message(subject, body):
    return (
        f"From: Bob <bob@example.org>\r\nTo: {user}\r\nSubject: {subject}\r\n"
        f"Date: Fri, 01 Mar 2024 12:00:00 +0100\r\nMessage-ID: <{subject}@x>\r\n\r\n{body}\r\n"
    ).encode()


c = login()
names = [re.search(rb'"/" (.*)$', line).group(1).strip(b'"') for line in ok(c.list())]
for wanted in (b"INBOX", b"Sent", b"Drafts", b"Trash", b"Junk", b"Archive"):
    assert wanted in names, names

ok(c.create("Work/Reports"))
ok(c.create("Gr&APwA3w-e"))  # Grüße in modified UTF-7
ok(c.subscribe("Work/Reports"))
assert any(b"Work/Reports" in line for line in ok(c.lsub()))

uids = []
for n in range(20):
    date = imaplib.Time2Internaldate(1709290800 + n)
    data = ok(c.append("Work/Reports", r"(\Seen)" if n % 2 else None, date, message(f"report-{n}", f"body {n}")))
    uids.append(int(re.search(rb"APPENDUID \d+ (\d+)", data[0]).group(1)))
assert uids == sorted(set(uids)), uids

assert ok(c.select("Work/Reports")) == [b"20"]
data = ok(c.fetch("1:*", "(UID FLAGS INTERNALDATE RFC822.SIZE)"))
assert len(data) == 20, data
assert b"\\Seen" in data[1] and b"\\Seen" not in data[0], data[:2]
assert b'" 1-Mar-2024 11:00:00 +0000"' in data[0], data[0]
data = ok(c.fetch("3", "(BODY.PEEK[])"))
assert data[0][1] == message("report-2", "body 2"), data
data = ok(c.fetch("3", "(BODY.PEEK[HEADER.FIELDS (SUBJECT)] BODY.PEEK[TEXT]<0.4>)"))
assert data[0][1] == b"Subject: report-2\r\n\r\n" and data[1][1] == b"body", data
data = ok(c.fetch("3", "(ENVELOPE BODYSTRUCTURE)"))
assert b'"report-2"' in data[0] and b'"TEXT" "PLAIN"' in data[0].upper(), data

assert ok(c.search(None, "UNSEEN")) == [b" ".join(b"%d" % n for n in range(1, 20, 2))]
assert ok(c.search(None, "SUBJECT", '"report-7"')) == [b"8"]
assert ok(c.search(None, "BODY", '"body 11"')) == [b"12"]
assert ok(c.search(None, "NOT", "SEEN", "FROM", "bob", "1:4")) == [b"1 3"]
assert ok(c.sort("(REVERSE DATE SUBJECT)", "UTF-8", "1:3,10:12")) == [b"1 2 11 12 3 10"]
assert ok(c.uid("SORT", "(REVERSE ARRIVAL)", "UTF-8", "SEEN 1:6")) == [b" ".join(b"%d" % uids[n] for n in (5, 3, 1))]
assert ok(c.thread("REFERENCES", "UTF-8", "1:3")) == [b"(1)(2)(3)"]
assert ok(c.uid("THREAD", "ORDEREDSUBJECT", "UTF-8", "2")) == [b"(%d)" % uids[1]]

assert ok(c.uid("SEARCH", None, "UID", f"{uids[4]}:{uids[6]}")) == [b" ".join(b"%d" % u for u in uids[4:7])]

data = ok(c.store("2", "+FLAGS", r"(\Flagged $Important)"))
assert b"\\Flagged" in data[0] and b"$Important" in data[0], data
ok(c.store("2", "-FLAGS.SILENT", r"(\Seen)"))
assert b"\\Seen" not in ok(c.fetch("2", "(FLAGS)"))[0]

data = ok(c.copy("1:5", "Archive"))
assert b"COPYUID" in data[0], data
ok(c.uid("MOVE", f"{uids[10]}:{uids[11]}", "Gr&APwA3w-e"))
assert ok(c.search(None, "ALL")) == [b" ".join(b"%d" % n for n in range(1, 19))]
assert re.search(rb"MESSAGES 2\b", ok(c.status("Gr&APwA3w-e", "(MESSAGES)"))[0])
assert re.search(rb"MESSAGES 5\b", ok(c.status("Archive", "(MESSAGES UNSEEN UIDNEXT)"))[0])

ok(c.store("1:3", "+FLAGS", r"(\Deleted)"))
assert len(ok(c.expunge())) == 5  # imaplib still holds the two of the MOVE
assert len(ok(c.search(None, "ALL"))[0].split()) == 15

# IDLE: another session's append must come without being asked for.
watcher = login()
ok(watcher.select("INBOX"))
watcher.send(b"i1 IDLE\r\n")
assert watcher.readline().startswith(b"+")
ok(c.append("INBOX", None, None, message("pushed", "now")))
line = watcher.readline()
assert line.strip() == b"* 1 EXISTS", line
watcher.send(b"DONE\r\n")
while not (line := watcher.readline()).startswith(b"i1 "):
    pass
assert line.startswith(b"i1 OK"), line

ok(c.rename("Work/Reports", "Work/Old"))
assert any(b"Work/Old" in line for line in ok(c.list('""', "Work/*")))
ok(c.unsubscribe("Work/Reports"))
ok(c.close())
ok(c.delete("Work/Old"))
assert c.select("Work/Old")[0] == "NO"
assert c.logout()[0] == "BYE"
print("imaplib: done")
