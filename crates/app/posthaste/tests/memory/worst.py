# Opens sessions over TLS and brings each into one state. Prints by how many bytes of its own
# memory the server has grown for each. The functions of `PYTHON_SESSIONS` and of `states.py` are
# before this.
import sys

pid, port, state, count, user, password = sys.argv[1:]


def worst(number):
    sessions = [of_state(state, port, user, password) for _ in range(number)]
    for session in sessions:
        session.worsen()
    return sessions


if state == "sieve":
    of_state(state, port, user, password).store()
# The first ones fill the allocator's free lists, open the mailbox and start threads.
warm = worst(10)
before = at_rest(pid)
sessions = worst(int(count))
print((at_rest(pid) - before) // int(count))
