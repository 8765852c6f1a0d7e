"""A folder in which ``threadloader bench`` runs: data, a config, and code of every kind."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import calling

NPZ = {"type": "npz", "path": "x.npz"}
QUICK = ("--batches", "4", "--repeat", "1")

MODULE = '''
import multiprocessing, os, signal, socket, subprocess, sys, tempfile, threading, time
from concurrent.futures import ProcessPoolExecutor
import numpy as np

class Numbers:
    """Sample i is i; reading one prints, which must not get into the answer."""
    def __len__(self): return 10
    def __getitem__(self, index):
        print("read", index)
        return np.array([index, os.getpid()])

def same(sample): return sample
def noise(sample, rng): return sample + rng.random()
def broken(): raise ValueError("no\\ndata")
def leaves(): os._exit(3)
def killed(): os.kill(os.getpid(), 9)
def killed_beside_a_fork():
    if os.fork(): os.kill(os.getpid(), 9)
    time.sleep(1000)
def exits(): sys.exit("enough")
def interrupted(): raise KeyboardInterrupt
def nothing(): return []

class OnceGood:
    """Each sample can be read once."""
    read = 0
    def __len__(self): return 10
    def __getitem__(self, index):
        self.read += 1
        if self.read > 10: raise OSError("gone")
        return index

def forgot(): pass

class Closing(Numbers):
    closed = 0
    def close(self):
        Closing.closed += 1
        raise OSError("too late")

def held():
    """Says that it is here, and holds the line open as long as this process lives."""
    global line
    line = socket.create_connection(("127.0.0.1", int(os.environ["HELD_PORT"])))
    time.sleep(600)

def connect():
    global line
    line = socket.create_connection(("127.0.0.1", int(os.environ["HELD_PORT"])))

def leaves_a_process():
    global pool
    pool = ProcessPoolExecutor(1)
    pool.submit(connect).result()
    return Numbers()

def leaves_a_program():
    global program
    port = os.environ["HELD_PORT"]
    code = "import socket; line = socket.create_connection(('127.0.0.1', " + port + ")); "
    code += "print(flush=True); line.recv(1)"
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    program.stdout.readline()  # it is there
    return Numbers()

def leaves_a_deaf_process():
    signal.signal(signal.SIGTERM, lambda *told: None)
    multiprocessing.get_context("fork").Process(target=held).start()
    return Numbers()

def leaves_a_pool():
    global pool
    pool = multiprocessing.get_context("fork").Pool(2)
    pool.map(abs, range(4))
    return Numbers()

def leaves_a_thread():
    threading.Thread(target=held).start()
    return Numbers()

def leaves_a_folder():
    global folder
    folder = tempfile.TemporaryDirectory(dir=".", prefix="left")
    return Numbers()
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with data, a module and a config."""
    np.savez(tmp_path / "x.npz", x=np.arange(24.0).reshape(12, 2), y=np.arange(12))
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    write({"source": NPZ, "batch_size": 5})
    return tmp_path


def write(config, name="c.json"):
    Path(name).write_text(json.dumps(config), encoding="utf-8")
    return name


@pytest.fixture
def command(folder, capsys):
    """Gives a function that runs ``threadloader bench``: exit code, stdout, stderr."""
    return calling(capsys, "bench")
