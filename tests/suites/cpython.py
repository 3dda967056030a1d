"""Python's own tests of what it does with sockets, as Debian's package of them installs them: nothing is built."""
import glob
import json
import os

PYTHON = "/usr/bin/python3"
RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unittests.py")


class Python:
    """Some of its modules. Tests are named as Python names them."""

    workers = 3

    def __init__(self, name, modules, limit=300):
        self.name, self.modules, self.limit = name, modules, limit

    @staticmethod
    def missing():
        """Why it can't be run; None: it can."""
        if not glob.glob("/usr/lib/python3.*/test/test_socket.py"):
            return "Python's tests are not installed"
        return None

    def run(self, run, names=None):
        results = os.path.join(run.folder, "results.json")
        # A class or module that failed as a whole has no name that could be run again.
        words = [name for name in names if name.startswith("test.")] if names else self.modules
        if not words:
            words = self.modules
        run.execute([PYTHON, RUNNER, results, *words])
        if not os.path.exists(results):
            return {}
        with open(results, encoding="utf-8") as file:
            return json.load(file)


# What takes a minute in all three ways at once: for make test.
SHORT = [
    Python("python-sockets", ["test_socket", "test_select", "test_epoll", "test_poll", "test_timeout"]),
    Python("python-asyncio", ["asyncio.test_sock_lowlevel", "asyncio.test_streams", "asyncio.test_selector_events",
                              "asyncio.test_server", "asyncio.test_unix_events", "test_socketserver", "test_httplib",
                              "test_httpservers", "test_urllib2_localnet", "test_smtplib", "test_telnetlib",
                              "test_asynchat", "test_asyncore"]),
]
LONG = [
    Python("python-ssl", ["test_ssl", "asyncio.test_ssl", "asyncio.test_sslproto"], 600),
    Python("python-clients", ["test_ftplib", "test_poplib", "test_imaplib", "test_nntplib", "test_xmlrpc",
                              "test_docxmlrpc", "test_wsgiref", "test_selectors"], 600),
    Python("python-events", ["asyncio.test_events", "asyncio.test_sendfile", "asyncio.test_subprocess"], 600),
    Python("python-processes", ["test_subprocess", "test_signal", "test_fork1", "test_posix", "test_os", "test_fcntl",
                                "test_multiprocessing_fork", "test_concurrent_futures"], 900),
]
