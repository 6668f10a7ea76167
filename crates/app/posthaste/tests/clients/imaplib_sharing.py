# Two users and a shared account, by Python's imaplib: what ana shares, bo sees; nothing else.
import imaplib
import sys

port, password = int(sys.argv[1]), sys.argv[2]


def login(user):
    client = imaplib.IMAP4("127.0.0.1", port)
    client.login(user, password)
    return client


def ok(answer):
    kind, data = answer
    assert kind == "OK", answer
    return data


def no(answer, code):
    kind, data = answer
    assert kind == "NO" and data[0].startswith(b"[" + code), answer


ana, bo = login("ana@example.org"), login("bo@example.org")
ok(ana.create("Projects"))
ok(ana.create("Secret"))
ok(ana.append("Projects", None, None, b"Subject: plan\r\n\r\nThe plan.\r\n"))
mailbox = '"Other Users/ana@example.org/Projects"'
no(bo.select(mailbox), b"NONEXISTENT")
ok(ana.setacl("Projects", "bo@example.org", "lrs"))
assert b"bo@example.org lrs" in ok(ana.getacl("Projects"))[0]
assert ok(bo.myrights(mailbox))[0].endswith(b" lrs")
namespace = ok(bo.namespace())[0]
assert b'("Other Users/" "/")' in namespace and b'("Shared/" "/")' in namespace, namespace
names = b"\n".join(ok(bo.list('""', "*")))
assert b"Other Users/ana@example.org/Projects" in names and b"Secret" not in names, names
assert b"Shared/sales@example.org/INBOX" in names, names
assert ok(bo.select(mailbox)) == [b"1"]
assert b"The plan." in ok(bo.fetch("1", "(BODY[])"))[0][1]
no(bo.store("1", "+FLAGS", "(\\Deleted)"), b"NOPERM")
ok(bo.copy("1", "INBOX"))
no(bo.append("Shared/sales@example.org/INBOX", None, None, b"Subject: x\r\n\r\nx\r\n"), b"NOPERM")
ok(ana.append("Shared/sales@example.org/INBOX", None, None, b"Subject: order\r\n\r\nx\r\n"))
assert ok(bo.select("Shared/sales@example.org/INBOX", readonly=True)) == [b"1"]
ok(bo.select(mailbox))
ok(ana.deleteacl("Projects", "bo@example.org"))
try:
    bo.noop()
    raise AssertionError("bo's session goes on")
except imaplib.IMAP4.abort as bye:
    assert "was deleted" in str(bye), bye
print("imaplib: shared")
