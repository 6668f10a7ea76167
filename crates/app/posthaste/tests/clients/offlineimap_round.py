"""OfflineIMAP against the server, both ways: messages, flags, keywords and folders from there and from here, what is
deleted on either side, and nothing to do at the end. Arguments: port, user, password, an empty folder to work in."""
import imaplib, os, pathlib, subprocess, sys

port, user, password, work = int(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
(work / "rc").write_text(f"""
[general]
accounts = a
metadata = {work}/state
ui = basic
fsync = false
socktimeout = 60

[Account a]
localrepository = near
remoterepository = far

[Repository near]
type = Maildir
localfolders = {work}/mail
sep = /

[Repository far]
type = IMAP
remotehost = 127.0.0.1
remoteport = {port}
remoteuser = {user}
remotepass = {password}
ssl = no
starttls = no
auth_mechanisms = {{}}
""")
mail = [
    b"Subject: plain\r\nFrom: =?utf-8?q?Zo=C3=AB?= <zoe@example.net>\r\nMessage-ID: <a@x>\r\n\r\n.\r\n..\r\nFrom here\r\n",
    b"Subject: eight bits\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\xc3\xbc\xc3\x9fe \xff\r\n",
    b"Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b b\"\r\n\r\n"
    b"--b b\r\n\r\none\r\n--b b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntwo\r\n--b b--\r\n",
    b"Subject: long\r\n\r\n" + (b"0123456789" * 7 + b"\r\n") * 3000,
]


def synchronised(mechanism="PLAIN"):
    text = (work / "rc").read_text()
    (work / "rc.now").write_text(text.replace("{}", mechanism))
    done = subprocess.run(["offlineimap", "-c", work / "rc.now", "-o"], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "HOME": str(work)})
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "ERROR" not in said and "WARNING" not in said, said
    return said


def ok(answer):
    assert answer[0] == "OK", answer
    return answer[1]


def files(folder):
    return sorted(path for sub in ("cur", "new") for path in (work / "mail" / folder / sub).iterdir())


def flags(path):
    return path.name.rpartition(":2,")[2]


def near(folder, subject):
    found = [path for path in files(folder) if b"Subject: " + subject in path.read_bytes()]
    assert len(found) == 1, (folder, subject, found)
    return found[0]


def octets(path):
    """A message as it was. OfflineIMAP writes lines with LF, and another header field if it uploads one."""
    return path.read_bytes().replace(b"\r\n", b"\n")


def found(keys):
    return ok(client.search(None, keys))[0].split()


client = imaplib.IMAP4("127.0.0.1", port, timeout=60)
ok(client.login(user, password))
ok(client.create("Work/Reports"))
ok(client.create("Gr&APwA3w-e"))
for text in mail:
    ok(client.append("Work/Reports", r"(\Seen)", None, text))
ok(client.append("INBOX", None, None, mail[0]))

# From there to here.
synchronised("LOGIN")
assert {path.name for path in (work / "mail").iterdir()} >= {"INBOX", "Work", "Gr&APwA3w-e", "Sent"}
for text in mail:
    subject = text.split(b"\r\n")[0].removeprefix(b"Subject: ")
    path = near("Work/Reports", subject)
    assert octets(path) == text.replace(b"\r\n", b"\n"), (subject, path.read_bytes()[:300])
    assert flags(path) == "S", path
assert flags(files("INBOX")[0]) == ""

# From here to there: a message, flags, a deletion, a folder.
(work / "mail/INBOX/new/1.here").write_bytes(b"Subject: from near\nMessage-ID: <near@x>\n\ngr\xc3\xbc\xc3\x9fe\n")
flagged = near("Work/Reports", b"plain")
flagged.rename(flagged.with_name(flagged.name.replace(":2,S", ":2,FS")))
near("Work/Reports", b"eight").unlink()
for sub in ("cur", "new", "tmp"):
    (work / "mail/Made here" / sub).mkdir(parents=True)
(work / "mail/Made here/cur/2.here:2,RS").write_bytes(b"Subject: in a new folder\n\nx\n")
synchronised("PLAIN")
ok(client.select("INBOX"))
number = found('SUBJECT "from near"')[-1]
text = ok(client.fetch(number, "(FLAGS BODY.PEEK[])"))[0]
assert text[1].endswith("\r\n\r\ngrüße\r\n".encode()) and b"Message-ID: <near@x>\r\n" in text[1], text
assert b"\\Seen" not in text[0], text
ok(client.select('"Made here"'))
assert found("ANSWERED SEEN") == [b"1"]
ok(client.select("Work/Reports"))
assert [len(found(keys)) for keys in ("ALL", "FLAGGED", "SUBJECT eight")] == [3, 1, 0]

# From both sides at once.
ok(client.store(found("SUBJECT parts")[0], "+FLAGS", r"(\Answered)"))
ok(client.store(found("SUBJECT long")[0], "+FLAGS", r"(\Deleted)"))
ok(client.expunge())
ok(client.append("Work/Reports", r"(\Draft)", None, b"Subject: from far\r\n\r\nx\r\n"))
unflagged = near("Work/Reports", b"plain")
unflagged.rename(unflagged.with_name(unflagged.name.replace(":2,FS", ":2,S")))
synchronised()
assert flags(near("Work/Reports", b"parts")) == "RS"
assert flags(near("Work/Reports", b"from far")) == "D"
assert len(files("Work/Reports")) == 3
ok(client.noop())
assert [len(found(keys)) for keys in ("ALL", "FLAGGED")] == [3, 0]

# Now both are the same, and stay so.
before = {folder: files(folder) for folder in ("INBOX", "Work/Reports", "Made here")}
said = synchronised()
assert "Copy message" not in said and "Deleting" not in said and "flag" not in said, said
assert before == {folder: files(folder) for folder in before}
client.logout()
print("OfflineIMAP: done")
