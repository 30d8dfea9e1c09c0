"""Runs a program at a terminal of its own, and answers what it asks.

Usage: terminal.py ANSWER... -- PROGRAM ARGUMENT...

Whenever the program prints a prompt that ends in a colon and a space, the next answer is typed.
Prints all that the terminal shows, and ends as the program does.
"""

import os
import pty
import sys

at = sys.argv.index("--")
answers, command = sys.argv[1:at], sys.argv[at + 1 :]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
shown, unanswered = b"", b""
while True:
    try:
        more = os.read(terminal, 4096)
    except OSError:
        break
    if not more:
        break
    shown += more
    unanswered += more
    if answers and unanswered.endswith(b": "):
        os.write(terminal, answers.pop(0).encode() + b"\n")
        unanswered = b""
os.write(1, shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
