#!/usr/bin/env python3
"""Measure remote exec / PTY services and the physical limit side by side, on loopback only.

  python3 peers/run.py                    install, build, start every system, run every metric
  python3 peers/run.py --metrics exec,echo --systems limit,codex,ssh-lib --rounds 5
  python3 peers/run.py --table results.jsonl      only print the table of an earlier run

JSON lines (metric, system, value, unit, ...) go to --out and the medians to stdout. Systems are interleaved:
each round runs every system once for each metric, in turn, so that a slow spell of the machine hits all of them.
Needs: apt, pip, npm and crates registries at the first run (or what is already in --work).
"""
import argparse, json, os, shutil, signal, statistics, subprocess, sys, time, socket
HERE = os.path.dirname(os.path.abspath(__file__))
ap = argparse.ArgumentParser()
ap.add_argument("--work", default=os.environ.get("PEERS_WORK", "/var/tmp/bench-peers"))
ap.add_argument("--target", default=os.environ.get("CARGO_TARGET_DIR", ""))
ap.add_argument("--systems", default="")
ap.add_argument("--metrics", default="")
ap.add_argument("--rounds", type=int, default=3)
ap.add_argument("--out", default="")
ap.add_argument("--table", default="")
ap.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
ap.add_argument("--patience", type=float, default=8, help="seconds to wait for an idle machine before each run")
ap.add_argument("--no-nice", action="store_true", help="do not raise the priority of servers and clients alike")
A = ap.parse_args()
if os.geteuid() == 0 and not A.no_nice and not A.table:
    try: os.nice(-15)  # other work on the machine disturbs less; the same for every system
    except OSError: pass
W = A.work
TARGET = A.target or os.path.join(W, "target")
BIN = os.path.join(TARGET, "release", "peerbench")
# the service under measurement: a release build of this repository
UEXEC = os.environ.get("PEERS_UEXEC", os.path.join(HERE, "../../target/release/uexec"))
VENV = os.environ.get("PEERS_VENV", os.path.join(W, "venv"))
NPM = os.environ.get("PEERS_NPM", os.path.join(W, "npm"))
CODEX_VERSION = "0.171.0"
KEY = "bench-key"
# knobs of limit, rawtcp, tonic (and the cipher of ssh-lib), to try other settings: CHUNK=262144 PIPE_SZ=1048576 RBUF=262144 run.py ...
TUNE = {k: os.environ[k] for k in ("CHUNK", "WIN", "FRAME", "THREADS", "PIPE_SZ", "RBUF", "SSH_CIPHER") if k in os.environ}
# xAI's ptyctl has no package; measured only where its binary is given 
PTYCTL = os.environ.get("PEERS_PTYCTL", "")

def sh(*a, **k):
    return subprocess.run(a, check=True, **k)

def install(want):
    """what the systems that are wanted need, and our own client"""
    os.makedirs(W, exist_ok=True)
    need = [p for p, t in (("openssh-server", "/usr/sbin/sshd"), ("openssh-client", "/usr/bin/ssh"), ("tmux", "/usr/bin/tmux"),
                           ("protobuf-compiler", "/usr/bin/protoc"), ("gcc", "/usr/bin/gcc")) if not os.path.exists(t)]
    if need:
        sh("apt-get", "update", "-qq", stdout=sys.stderr)
        sh("apt-get", "install", "-y", "-qq", *need, stdout=sys.stderr)
    if {"swerex", "terminado"} & set(want) and not os.path.exists(os.path.join(VENV, "bin/swerex-remote")):
        sh(sys.executable, "-m", "venv", VENV)
        sh(os.path.join(VENV, "bin/pip"), "-q", "install", "swe-rex==1.4.0", "terminado==0.18.1", "tornado==6.6.1", stdout=sys.stderr)
    if "nodepty" in want and not os.path.isdir(os.path.join(NPM, "node_modules/@lydell/node-pty")):
        os.makedirs(NPM, exist_ok=True)
        sh("npm", "install", "--prefix", NPM, "--no-audit", "--no-fund", "@lydell/node-pty@1.1.0", "ws@8", stdout=sys.stderr)
    env = dict(os.environ, CARGO_TARGET_DIR=TARGET)
    sh("cargo", "build", "--release", "--quiet", cwd=os.path.join(HERE, "rs"), env=env, stdout=sys.stderr)

def codex_bin():
    rel = "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
    for d in (os.environ.get("PEERS_CODEX", ""), os.path.join(W, "codex")):
        if d and os.path.exists(os.path.join(d, rel)):
            return os.path.join(d, rel)
    d = os.path.join(W, "codex")
    os.makedirs(d, exist_ok=True)
    sh("npm", "install", "--prefix", d, "--no-audit", "--no-fund", "@openai/codex@" + CODEX_VERSION, stdout=sys.stderr)
    return os.path.join(d, rel)

signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
PROCS = []
def spawn(argv, env=None, ready=None, cwd="/tmp"):
    log = open(os.path.join(W, os.path.basename(argv[0]) + ".log"), "a")
    p = subprocess.Popen(argv, stdout=subprocess.PIPE if ready else log, stderr=log, stdin=subprocess.DEVNULL, env=env, cwd=cwd)
    PROCS.append(p)
    if ready:
        return p, ready(p.stdout.readline().decode().strip())
    return p, None

def free_port():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); n = s.getsockname()[1]; s.close(); return n

def wait_port(port, to=20):
    t = time.time()
    while time.time() - t < to:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close(); return
        except OSError:
            time.sleep(0.002)
    raise SystemExit("port %d did not open" % port)

BASE_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/var/empty", "TERM": "xterm", "LANG": "C.UTF-8"}

def ssh_setup():
    d = os.path.join(W, "ssh"); os.makedirs(d, exist_ok=True); os.chmod(d, 0o700)
    for k in ("host", "user"):
        if not os.path.exists(os.path.join(d, k)):
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(d, k))
    shutil.copy(os.path.join(d, "user.pub"), os.path.join(d, "auth"))
    port = free_port()
    open(os.path.join(d, "sshd.conf"), "w").write(
        "Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/auth\nPidFile none\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin yes\nPasswordAuthentication no\nMaxSessions 2000\nMaxStartups 2000\nUseDNS no\nPrintMotd no\nPrintLastLog no\nX11Forwarding no\nSetEnv HOME=/var/empty\nSubsystem sftp internal-sftp\n" % (port, d, d))
    open(os.path.join(d, "ssh.conf"), "w").write(
        "Host b\n  HostName 127.0.0.1\n  Port %d\n  User root\n  IdentityFile %s/user\n  IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  BatchMode yes\n" % (port, d))
    os.makedirs("/run/sshd", exist_ok=True)
    os.makedirs("/var/empty", exist_ok=True)  # HOME of every child: no startup file of this machine is measured
    return d, port

class Sys:
    """name -> (connect string, server pid, comm prefixes, options)"""
    def __init__(s): s.d = {}
    def add(s, name, spec, pid=0, comms="", **o): s.d[name] = (spec, pid, comms, o)

def start_servers(want):
    S = Sys(); env = {}
    ready = lambda l: l.split()[-1]
    if "limit" in want: S.add("limit", "limit")
    if "uexec" in want:
        rt, port = os.path.join(W, "uexec-run"), free_port()
        shutil.rmtree(rt, ignore_errors=True); os.makedirs(rt, mode=0o700)
        p, _ = spawn([UEXEC, "serve", "--runtime-dir", rt, "--listen", "127.0.0.1:%d" % port], BASE_ENV); wait_port(port)
        S.add("uexec", "uexec@127.0.0.1:%d,%s/reviewer.token" % (port, rt), p.pid)
    if "rawtcp" in want:
        p, a = spawn([BIN, "serve-raw", "127.0.0.1:0"], dict(BASE_ENV, **TUNE), ready); S.add("rawtcp", "rawtcp@" + a, p.pid)
    ton = [w for w in want if w.startswith("tonic")]
    if ton:
        p, a = spawn([BIN, "serve-tonic", "127.0.0.1:0"], dict(BASE_ENV, **TUNE), ready)
        for t in ton:
            if t != "tonic-pump": S.add(t, t + "@" + a, p.pid)
    if "tonic-pump" in want:
        p, a = spawn([BIN, "serve-tonic", "127.0.0.1:0"], dict(BASE_ENV, PUMP="1", **TUNE), ready); S.add("tonic-pump", "tonic-bidi@" + a, p.pid)
    if "codex-stdio" in want:
        env["CODEX_BENCH_HOME"] = os.path.join(W, "codex-home"); os.makedirs(env["CODEX_BENCH_HOME"], exist_ok=True)
        S.add("codex-stdio", "codex-stdio@" + codex_bin(), 0, "codex")
    if {"codex", "codex16", "codex-quickack"} & set(want):
        h = os.path.join(W, "codex-home"); os.makedirs(h, exist_ok=True)
        cb = codex_bin()
        # codex: as anyone would run it; -quickack: the client hides the server's missing TCP_NODELAY;
        # codex16: that and --concurrent-requests 16
        for names, extra in ((("codex", "codex-quickack"), []), (("codex16",), ["--concurrent-requests", "16"])):
            if set(names) & set(want):
                p, a = spawn([cb, "exec-server", "--listen", "ws://127.0.0.1:0"] + extra, dict(BASE_ENV, HOME=h), lambda l: l.replace("ws://", ""))
                for n in names:
                    if n in want: S.add(n, ("codex@" if n == "codex" else "codex-quickack@") + a, p.pid, "codex")
    if any(w.startswith("ssh") for w in want):
        d, port = ssh_setup()
        p, _ = spawn(["/usr/sbin/sshd", "-D", "-e", "-f", d + "/sshd.conf"], BASE_ENV); wait_port(port)
        env.update(SSH_KEY=d + "/user", SSH_CMD="ssh -F %s/ssh.conf b" % d, SSH_MUX_CMD="ssh -F %s/ssh.conf -S %s/ctl b" % (d, d))
        if "ssh-mux" in want:
            m, _ = spawn(["ssh", "-F", d + "/ssh.conf", "-M", "-S", d + "/ctl", "-N", "b"], BASE_ENV)
            t = time.time()
            while not os.path.exists(d + "/ctl") and time.time() - t < 10: time.sleep(0.05)
        for n in ("ssh-lib", "ssh-cli", "ssh-mux"):
            if n in want: S.add(n, n + ("@127.0.0.1:%d" % port if n == "ssh-lib" else ""), p.pid, "sshd")
    if "swerex" in want:
        port = free_port()
        p, _ = spawn([VENV + "/bin/swerex-remote", "--host", "127.0.0.1", "--port", str(port), "--auth-token", KEY], BASE_ENV); wait_port(port)
        env["SWEREX_KEY"] = KEY; S.add("swerex", "swerex@127.0.0.1:%d" % port, p.pid)
    if "tmux" in want:
        sock = os.path.join(W, "tmux.sock")
        if os.path.exists(sock): os.unlink(sock)
        sh("tmux", "-S", sock, "-f", "/dev/null", "new-session", "-d", "-s", "bench", "-x", "80", "-y", "24", "sleep 100000", env=BASE_ENV)
        pid = int(subprocess.check_output(["tmux", "-S", sock, "display-message", "-p", "#{pid}"]))
        S.add("tmux", "tmux@" + sock, pid, "", ptyonly=1)
    if "terminado" in want:
        p, a = spawn([VENV + "/bin/python", HERE + "/terminado_server.py", "0"], BASE_ENV, ready); S.add("terminado", "terminado@" + a, p.pid, "", ptyonly=1)
    if "nodepty" in want:
        p, a = spawn([shutil.which("node"), HERE + "/nodepty_server.js", "0"], dict(BASE_ENV, NODE_PATH=NPM + "/node_modules"), ready); S.add("nodepty", "nodepty@" + a, p.pid, "", ptyonly=1)
    if "ptyctl" in want and os.path.exists(PTYCTL): S.add("ptyctl", "ptyctl@" + PTYCTL, 0, "ptyctl", ptyonly=1)
    return S, env

ALL = ["uexec", "limit", "rawtcp", "tonic-bidi", "tonic-unary", "tonic-pump", "tonic-run", "codex", "codex-quickack", "codex-stdio", "codex16", "ssh-lib", "ssh-mux", "ssh-cli", "swerex", "tmux", "terminado", "nodepty", "ptyctl"]
M = {  # metric -> (systems it makes sense for, options)
    "exec": (ALL, {"n": 120}),
    "conc": (ALL, {"n": 800}),
    "ttfb": ([s for s in ALL if s not in ("tonic-run", "swerex")], {"n": 80}),
    "wake": ([s for s in ALL if s not in ("tonic-run", "codex16")], {"n": 12, "ms": 150}),
    "echo": ([s for s in ALL if s not in ("tonic-run", "swerex")], {"n": 1500}),
    "flood": (["uexec", "limit", "rawtcp", "tonic-bidi", "tonic-unary", "tonic-pump", "codex", "codex-quickack", "codex-stdio", "ssh-lib"], {"n": 200}),
    "stream": ([s for s in ALL if s not in ("tonic-run",)], {"bytes": 512 << 20}),
    "stall": ([s for s in ALL if s not in ("tonic-run", "swerex", "limit")], {"bytes": 512 << 20}),
    "density": ([s for s in ALL if s not in ("tonic-run",)], {"n": 200}),
    "density1000": ([s for s in ALL if s not in ("tonic-run", "swerex", "ssh-cli", "ssh-mux", "codex16")], {"n": 1000}),
    "cancel": ([s for s in ALL if s not in ("tonic-run", "swerex")], {"n": 40}),
    "ptycopy": (["limit"], {"bytes": 128 << 20}),
    "cancelpty": (["uexec", "limit", "rawtcp", "tonic-bidi", "codex-quickack", "ssh-lib", "ssh-mux"], {"n": 30, "pty": 1}),
    "hop": (["limit"], {"n": 4000, "bytes": 1 << 30}),
    "rpc": (["tonic-bidi"], {}),
    "rpcstream": (["tonic-bidi"], {"bytes": 1 << 30}),
    "cold": (["uexec", "rawtcp", "tonic-bidi", "codex", "ssh-lib", "swerex", "tmux", "terminado", "nodepty"], {"n": 6}),
}
# the slow ones get fewer repetitions of a metric, the unfit none
CUT = {("exec", "ssh-cli"): {"n": 16}, ("exec", "ssh-mux"): {"n": 50}, ("exec", "codex"): {"n": 30}, ("ttfb", "codex"): {"n": 30}, ("echo", "codex"): {"n": 60},
       ("conc", "codex"): {"n": 320}, ("conc", "codex-quickack"): {"n": 320}, ("conc", "codex16"): {"n": 320}, ("conc", "codex-stdio"): {"n": 320, "shape": "c16_1conn"}, ("exec", "terminado"): {"n": 20}, ("ttfb", "ssh-cli"): {"n": 12}, ("ttfb", "terminado"): {"n": 20},
       ("conc", "ssh-cli"): {"n": 96, "shape": "c16_1conn"}, ("conc", "ssh-mux"): {"n": 160, "shape": "c16_1conn"}, ("conc", "ssh-lib"): {"n": 320},
       ("conc", "terminado"): {"n": 96, "shape": "c16_16conn"}, ("conc", "ptyctl"): {"n": 160, "shape": "c16_16conn"}, ("exec", "ptyctl"): {"n": 60}, ("ttfb", "ptyctl"): {"n": 40}, ("stream", "ptyctl"): {"bytes": 64 << 20}, ("stall", "ptyctl"): {"bytes": 128 << 20}, ("conc", "nodepty"): {"n": 320, "shape": "c16_16conn"}, ("conc", "tmux"): {"n": 320, "shape": "c16_1conn"},
       ("stream", "terminado"): {"bytes": 64 << 20}, ("stream", "nodepty"): {"bytes": 256 << 20}, ("stream", "tmux"): {"bytes": 64 << 20}, ("stream", "swerex"): {"bytes": 64 << 20},
       ("stall", "tmux"): {"bytes": 256 << 20}, ("stall", "terminado"): {"bytes": 256 << 20}, ("stall", "nodepty"): {"bytes": 512 << 20},
       ("echo", "terminado"): {"n": 500}, ("cancel", "ssh-cli"): {"n": 12}, ("density", "ssh-cli"): {"n": 50}, ("density", "swerex"): {"n": 20}}
ONCE = {"stall", "density", "density1000", "cold", "cancel", "cancelpty"}

def cold(name):
    """from exec of the server to its first good answer"""
    t = time.monotonic_ns()
    if name in ("rawtcp", "tonic-bidi"):
        port = free_port(); p = subprocess.Popen([BIN, "serve-raw" if name == "rawtcp" else "serve-tonic", "127.0.0.1:%d" % port], stdout=subprocess.DEVNULL, env=BASE_ENV)
        spec = "%s@127.0.0.1:%d" % (name, port)
    elif name == "uexec":
        rt, port = os.path.join(W, "uexec-cold"), free_port()
        shutil.rmtree(rt, ignore_errors=True); os.makedirs(rt, mode=0o700); t = time.monotonic_ns()
        p = subprocess.Popen([UEXEC, "serve", "--runtime-dir", rt, "--listen", "127.0.0.1:%d" % port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=BASE_ENV)
        spec = None
    elif name == "codex":
        h = os.path.join(W, "codex-home"); port = free_port()
        p = subprocess.Popen([codex_bin(), "exec-server", "--listen", "ws://127.0.0.1:%d" % port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(BASE_ENV, HOME=h), cwd="/tmp")
        spec = "codex@127.0.0.1:%d" % port
    elif name == "ssh-lib":
        d, port = ssh_setup(); t = time.monotonic_ns()
        p = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", d + "/sshd.conf"], stderr=subprocess.DEVNULL, env=BASE_ENV); spec = None
    elif name == "swerex":
        port = free_port(); p = subprocess.Popen([VENV + "/bin/swerex-remote", "--host", "127.0.0.1", "--port", str(port), "--auth-token", KEY], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=BASE_ENV); spec = None
    elif name == "terminado":
        port = free_port(); p = subprocess.Popen([VENV + "/bin/python", HERE + "/terminado_server.py", str(port)], stdout=subprocess.DEVNULL, env=BASE_ENV); spec = None
    elif name == "nodepty":
        port = free_port(); p = subprocess.Popen([shutil.which("node"), HERE + "/nodepty_server.js", str(port)], stdout=subprocess.DEVNULL, env=dict(BASE_ENV, NODE_PATH=NPM + "/node_modules")); spec = None
    elif name == "tmux":
        s = os.path.join(W, "tmuxcold.sock"); t = time.monotonic_ns()
        subprocess.run(["tmux", "-S", s, "-f", "/dev/null", "new-session", "-d", "-s", "c", "sleep 1000"], env=BASE_ENV)
        dt = time.monotonic_ns() - t
        subprocess.run(["tmux", "-S", s, "kill-server"]); return dt / 1e6
    try:
        for _ in range(20000):
            try:
                socket.create_connection(("127.0.0.1", port), 0.5).close(); break
            except OSError: time.sleep(0.0005)
        return (time.monotonic_ns() - t) / 1e6
    finally:
        p.terminate(); p.wait()

def idle(sec=0.25):
    def r():
        f = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
        return f[3] + f[4], sum(f)
    a = r(); time.sleep(sec); b = r()
    return (b[0] - a[0]) / max(1, b[1] - a[1])

def settle():
    """wait a little for a quiet machine; returns how idle it was"""
    t = time.time(); i = idle()
    while i < 0.85 and time.time() - t < A.patience: i = idle()
    return round(i, 2)

def main():
    mets = [m for m in A.metrics.split(",") if m] or ["hop", "ptycopy", "rpc", "rpcstream", "exec", "ttfb", "echo", "flood", "wake", "conc", "stream", "cancel", "cancelpty", "stall", "density", "density1000", "cold"]
    want = [s for s in A.systems.split(",") if s] or ALL
    install(want)
    log = "/tmp/peerbench.log.txt"
    if not os.path.exists(log) or os.path.getsize(log) < (256 << 20):
        line = b"2026-01-01T00:00:00.%06dZ INFO  worker[%04d] request handled path=/api/v1/items/%d status=200 took=%dms\n"
        with open(log, "wb") as f:
            n = 0; k = 0
            while n < (256 << 20):
                b = b"".join(line % (i % 1000000, i % 97, i * 7 % 100003, i % 251) for i in range(k, k + 20000)); k += 20000
                f.write(b); n += len(b)
    open(log, "rb").read()  # in the page cache
    out = open(A.out or os.path.join(W, "results-%d.jsonl" % int(time.time())), "a")
    print("results: " + out.name, file=sys.stderr)
    S, env = start_servers(want)
    e = dict(BASE_ENV, **env)
    e.update(TUNE)
    try:
        for m in mets:
            systems, opt = M[m]
            for rnd in range(1 if m in ONCE else A.rounds):
                for name in [s for s in want if s in systems]:
                    quiet = settle()
                    if m == "cold":
                        v = [cold(name) for _ in range(opt["n"])]
                        rows = [{"metric": "cold_to_accept", "system": name, "value": round(statistics.median(v), 2), "unit": "ms", "max": round(max(v), 1), "n": len(v)}]
                    else:
                        if name not in S.d: continue
                        spec, pid, comms, o = S.d[name]
                        oo = dict(opt); oo.update(CUT.get((m, name), {})); oo.update(o)
                        if A.quick:
                            for k in ("n", "bytes"):
                                if k in oo and m not in ("density", "density1000"): oo[k] = max(oo[k] // 10, 16)
                        argv = [BIN, "m", {"density1000": "density", "cancelpty": "cancel"}.get(m, m), spec, "name=" + name] + ["%s=%s" % kv for kv in oo.items()]
                        if pid: argv.append("spid=%d" % pid)
                        if comms: argv.append("comms=" + comms)
                        try:
                            r = subprocess.run(argv, env=e, stdout=subprocess.PIPE, timeout=90, cwd="/tmp")
                            rows = [json.loads(l) for l in r.stdout.decode().splitlines() if l.startswith("{")]
                        except subprocess.TimeoutExpired:
                            rows = [{"metric": m, "system": name, "error": "timed out"}]
                    for r in rows:
                        if m == "density1000" and "metric" in r: r["metric"] = r["metric"].replace("density_", "density1000_")
                        r["round"] = rnd; r["idle_before"] = quiet
                        out.write(json.dumps(r) + "\n"); out.flush()
                        print(json.dumps(r), file=sys.stderr)
    finally:
        for p in reversed(PROCS):
            p.terminate()
            try: p.wait(5)
            except subprocess.TimeoutExpired: p.kill()
        if "tmux" in S.d: subprocess.run(["tmux", "-S", os.path.join(W, "tmux.sock"), "kill-server"])
    table(out.name)

def table(paths):
    """medians over all rounds; ratios are taken inside a round (same minute, same machine) and then the median of them"""
    d = {}; unit = {}
    for path in paths.split(","):
        for l in open(path):
            r = json.loads(l)
            if r.get("value") == -1 and "error" in r: continue
            if "value" in r and "metric" in r:
                r["_k"] = (path, r.get("round", 0))
                d.setdefault(r["metric"], {}).setdefault(r["system"], []).append(r); unit[r["metric"]] = r.get("unit")
    med = statistics.median
    def ratio(v, ref):
        q = {}
        for r in ref: q.setdefault(r["_k"], []).append(r["value"])
        x = [r["value"] / med(q[r["_k"]]) for r in v if r["_k"] in q and med(q[r["_k"]])]
        return med(x) if x else None
    for m, by in d.items():
        print("\n## %s (%s)" % (m, unit[m]))
        for s, v in sorted(by.items(), key=lambda kv: med([x["value"] for x in kv[1]])):
            line = "  %-22s %12.1f" % (s, med([x["value"] for x in v]))
            for k in ("min", "p99"):
                x = [r[k] for r in v if k in r]
                if x: line += "  %s %.0f" % (k, med(x))
            for ref in ("limit", "rawtcp", "codex-quickack", "ssh-lib"):
                if ref in by and s != ref:
                    q = ratio(v, by[ref])
                    if q: line += "  x%.2f %s" % (q, ref)
            for k in ("cpu_s_per_GB", "peak_rss_mb"):
                x = [r[k] for r in v if k in r]
                if x: line += "  %s=%.2f" % (k, med(x))
            last = v[-1]
            line += "".join("  %s=%s" % (k, round(last[k], 3) if isinstance(last[k], float) else last[k]) for k in last
                            if k not in ("metric", "system", "value", "unit", "p90", "p99", "min", "max", "n", "round", "idle_before", "client_buffer_note", "secs", "_k", "cpu_s_per_GB", "peak_rss_mb", "load1"))
            print(line + "  [%d runs]" % len(v))

if A.table:
    try: table(A.table)
    except BrokenPipeError: pass
else: main()
