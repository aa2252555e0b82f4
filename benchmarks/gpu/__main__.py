"""`python3 -m benchmarks.gpu COMMAND`: prepare, call-1, call-2 or page; README.md says when."""

import sys

COMMANDS = ("prepare", "call-1", "call-2", "page")

if __name__ == "__main__":
    name, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    # Each is imported alone: a machine with a GPU has little more than Python, and one without has no torch.
    if name in ("call-1", "call-2"):
        from benchmarks.gpu.call import main as call

        call(int(name[-1]), arguments)
    elif name == "prepare":
        from benchmarks.gpu.prepare import main as prepare

        prepare()
    elif name == "page":
        from benchmarks.gpu.page import main as page

        page(arguments)
    else:
        sys.exit(f"python3 -m benchmarks.gpu {'|'.join(COMMANDS)}")
