# Fills the connections of a server, and its memory for messages that come in. Prints how many bytes
# of its own memory the server has then. Holds all of it until standard input ends. The functions of
# `PYTHON_SESSIONS` and of `states.py` are before this.
import random, sys
from concurrent.futures import ThreadPoolExecutor

pid, imaps, submissions, fields, recipients, password, *users = sys.argv[1:]
# No answer takes as long.
socket.setdefaulttimeout(120)
# A part of a message would take memory that the messages below fill.
Imap.header, Mail.with_message = 1, False
# Two messages of one APPEND are within its limit, and two such APPENDs within the account's share.
size = 200 * 1024


def append_header(user):
    # Its summary is as long as it may be without memory for reading. Random, so that compression
    # does not make it small.
    header = "".join("X-%d: %015000x\r\n" % (n, random.getrandbits(60000)) for n in range(4))
    stream = connect(imaps, True)
    message = header + "\r\nbody\r\n"
    for text in [
        'LOGIN %s "%s"' % (user, password),
        "CREATE Large",
        "APPEND Large {%d+}\r\n%s" % (len(message), message),
        "LOGOUT",
    ]:
        command(stream, text)


def worst(state, port):
    session = of_state(state, port, users[0], password)
    session.worsen()
    return session


def half_appended(user):
    # One message has come. The other one is announced, and lacks its last octet.
    stream = connect(imaps, True)
    command(stream, 'LOGIN %s "%s"' % (user, password))
    stream.sendall(b"a APPEND INBOX {%d}\r\n" % size)
    line(stream, b"+")
    stream.sendall(b"x" * size + b" {%d}\r\n" % size)
    line(stream, b"+")
    stream.sendall(b"x" * (size - 1))
    return stream


append_header(users[0])
with ThreadPoolExecutor(8) as threads:
    jobs = [threads.submit(worst, "fields", imaps) for _ in range(int(fields))]
    jobs += [threads.submit(worst, "recipients", submissions) for _ in range(int(recipients))]
    jobs += [threads.submit(half_appended, user) for user in users for _ in range(2)]
held = [job.result() for job in jobs]
print(at_rest(pid), flush=True)
sys.stdin.read()
