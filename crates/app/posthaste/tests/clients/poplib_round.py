"""poplib over every way in: PORT PORT_TLS CERTIFICATE USER PASSWORD. The INBOX has three messages."""
import poplib, ssl, sys

port, port_tls, certificate, user, password = sys.argv[1:]
context = ssl.create_default_context(cafile=certificate)


def log_in(pop):
    pop.user(user)
    assert b"3 messages" in pop.pass_(password)
    return pop


def refused(call, *args):
    try:
        call(*args)
    except poplib.error_proto as error:
        return error.args[0]
    raise AssertionError(f"{call} {args} was not refused")


pop = poplib.POP3("localhost", int(port), timeout=60)
offered = pop.capa()
for name in "TOP UIDL USER SASL STLS RESP-CODES AUTH-RESP-CODE PIPELINING UTF8 LANG EXPIRE LOGIN-DELAY".split():
    assert name in offered, (name, offered)
assert refused(pop.apop, user, password).startswith("-ERR APOP") if pop.timestamp else True
pop.stls(context)
assert "STLS" not in pop.capa()
pop.utf8()
log_in(pop)
pop.quit()

pop = log_in(poplib.POP3_SSL("localhost", int(port_tls), timeout=60, context=context))
messages, octets = pop.stat()
sizes = [int(line.split()[1]) for line in pop.list()[1]]
assert (messages, octets) == (3, sum(sizes)), (messages, octets, sizes)
ids = [line.split()[1] for line in pop.uidl()[1]]
assert len(set(ids)) == 3 and pop.uidl(2).split()[2] == ids[1]
for n in range(1, 4):
    response, lines, _ = pop.retr(n)
    assert len(b"".join(line + b"\r\n" for line in lines)) == sizes[n - 1]
    top = pop.top(n, 1)[1]
    assert lines[: len(top)] == top and top[-2] == b"", top
pop.dele(2)
assert pop.stat() == (2, octets - sizes[1])
assert refused(pop.retr, 2).startswith(b"-ERR")
pop.rset()
assert pop.stat() == (3, octets)
pop.noop()
pop.dele(1)
pop.close()

# A connection that ends without QUIT removes nothing.
pop = log_in(poplib.POP3("localhost", int(port), timeout=60))
assert [line.split()[1] for line in pop.uidl()[1]] == ids
pop.dele(2)
pop.quit()
pop = poplib.POP3("localhost", int(port), timeout=60)
pop.user(user)
pop.pass_(password)
assert [line.split()[1] for line in pop.uidl()[1]] == [ids[0], ids[2]]
pop.quit()
print("poplib: done")
