"""Two processes that measure the same call side by side (sampler.c), each in an environment of its own."""
import os
import re
import struct
import subprocess
import tempfile

from figures import NotMeasured, alternate

CANNOT = 77
LONGEST_SECONDS = 300


class Sampler:
    """One of the two. Calling it takes a sample: nanoseconds."""

    def __init__(self, argv, env):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        bufsize=0)

    def hear(self):
        said = self.process.stdout.read(8)
        if len(said) == 8:
            return struct.unpack("d", said)[0]
        status = self.process.wait()
        self.log.seek(0)
        words = self.log.read().decode(errors="replace").strip().rpartition("\n")[2]
        if status == CANNOT:
            raise NotMeasured(words)
        raise RuntimeError(f"{self.process.args} ended with {status}: {words}")

    def get_ready(self, processor):
        """Waits until it has prepared all, and keeps it on that processor from then on."""
        self.hear()
        os.sched_setaffinity(self.process.pid, {processor})

    def __call__(self):
        self.process.stdin.write(b"?")
        return self.hear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def sample(one, other, pairs, lives=1):
    """Pairs of samples of two (argv, env), which live anew so many times: where a process's memory lies is a part of
    what its calls cost. Both stay on one processor, each life on the next: two may have clocks of two speeds, and a
    process that sleeps comes back to its own."""
    found = []
    processors = sorted(os.sched_getaffinity(0))
    for life in range(lives):
        processor = processors[life % len(processors)]
        with Sampler(*one) as first, Sampler(*other) as second:
            first.get_ready(processor)
            second.get_ready(processor)
            found += alternate(first, second, pairs)
    return found


def system_calls(argv, env, calls):
    """How many system calls one call makes, of so many in a sample: by the difference of few samples and many."""
    totals = []
    for samples in (2, 12):
        with tempfile.NamedTemporaryFile() as counted:
            done = subprocess.run(["strace", "-f", "-c", "-o", counted.name, *argv], input=b"?" * samples, env=env,
                                  capture_output=True, timeout=LONGEST_SECONDS, check=False)
            total = re.search(rb"(?m)^ *[\d.]+ +[\d.]+ +\d+ +(\d+) .*total$", counted.read())
        if done.returncode != 0 or total is None:
            raise NotMeasured("strace may not trace here")
        totals.append(int(total[1]))
    return (totals[1] - totals[0] - 2 * 10) / (10 * calls)  # without the question and its answer
