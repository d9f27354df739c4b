//! Ordinary tools under `workspace_write` with the network off: each must work as it does without a sandbox.

use std::process::Command;

use unified_exec::core::process::ExitStatus;

use crate::bench::Bench;

/// A tool, what is done with it, and what it says then.
struct Tool {
    program: &'static str,
    line: &'static str,
    says: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "bash",
        line: "set -e; cat <<< here | tr a-z A-Z; diff <(echo 1) <(echo 1); { sleep 0.1; echo async; } & wait; \
               mapfile -t x < <(printf 'a\\nb\\n'); echo ${#x[@]} >/dev/null; exec 3>&1; echo three >&3",
        says: "three",
    },
    Tool {
        program: "git",
        line: "set -e; mkdir repo; cd repo; git init -q .; git config user.email a@b; git config user.name n; \
               echo x > f; git add f; git commit -qm first; git log --oneline; git status --short; git gc -q; \
               git clone -q . ../clone; git -C ../clone log --oneline | wc -l",
        says: "first",
    },
    Tool {
        program: "python3",
        line: "/usr/bin/python3 - <<'E'\nfrom multiprocessing import Pool, Semaphore, Queue\nimport sqlite3, tempfile, threading\n\
               Semaphore()\nif __name__ == '__main__':\n    print(Pool(2).map(abs, [-1, -2]))\n    q = Queue(); q.put(5); print(q.get())\n\
               t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n\
               print(tempfile.mkstemp()[1].startswith('/'))\nE",
        says: "[1, 2]",
    },
    Tool {
        program: "node",
        line: "node -e \"const {Worker} = require('worker_threads'); \
               new Worker('require(\\\"worker_threads\\\").parentPort.postMessage(6*7)', {eval: true}).on('message', m => console.log('worker', m)); \
               require('fs').writeFileSync('f', 'x'); require('child_process').execSync('echo child', {stdio: 'inherit'})\"",
        says: "worker 42",
    },
    Tool {
        program: "npm",
        line: "set -e; export npm_config_cache=$PWD/.npm npm_config_update_notifier=false; mkdir dep app; \
               (cd dep; npm init -y >/dev/null); cd app; npm init -y >/dev/null; npm pkg set scripts.hello='echo ran it'; \
               npm install --offline --no-audit --no-fund ../dep; ls node_modules; npm run --silent hello",
        says: "ran it",
    },
    Tool {
        program: "cargo",
        line: "set -e; cargo init -q --vcs none --name tiny .; echo 'fn main() { println!(\"built {}\", 6 * 7); }' > src/main.rs; \
               cargo build -q --offline; ./target/debug/tiny; cargo test -q --offline",
        says: "built 42",
    },
    Tool {
        program: "make",
        line: "printf 'all: a b\\n\\techo made\\na b:\\n\\ttouch $@\\n' > Makefile; make -j2",
        says: "made",
    },
    Tool {
        program: "gcc",
        line: "set -e; echo 'int puts(const char *); int main(void) { puts(\"compiled\"); }' > a.c; gcc -O2 a.c; ./a.out",
        says: "compiled",
    },
    Tool {
        program: "sqlite3",
        line: "sqlite3 t.db 'pragma journal_mode=wal; create table t(x); insert into t values(42); select x from t'",
        says: "42",
    },
    Tool {
        program: "python3",
        line: "/usr/bin/python3 -c \"import sqlite3; d = sqlite3.connect('t.db'); d.execute('pragma journal_mode=wal'); \
               d.execute('create table t(x)'); d.execute('insert into t values(42)'); d.commit(); print(*d.execute('select x from t'))\"",
        says: "42",
    },
    Tool {
        program: "vim",
        line: "printf 'one\\n' > f; vim -u NONE -i NONE -es -c '%s/one/two/' -c 'wq' f; cat f",
        says: "two",
    },
    Tool {
        program: "tar",
        line: "set -e; mkdir d; echo x > d/f; tar czf d.tgz d; rm -r d; tar xzf d.tgz; cat d/f; find . -name f; du -s . >/dev/null; \
               sed -i s/x/edited/ d/f; cat d/f",
        says: "edited",
    },
];

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

#[test]
fn ordinary_tools_work() {
    for Tool { program, line, says } in TOOLS {
        if !is_installed(program) {
            println!("not probed here: {program} is not installed");
            continue;
        }
        let bench = Bench::new();
        let mut plan = bench.plan(
            // What makes repositories works where nothing of them is protected.
            &bench.workspace_protecting(&[]),
            &["bash", "-c", line],
            unified_exec::core::spawn::Stdio::Pipes { stdin: false },
        );
        for name in ["PATH", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
            if let Ok(value) = std::env::var(name) {
                plan.env.retain(|var| var.name != name);
                plan.env.push(unified_exec::core::command::EnvVar::new(name, value));
            }
        }
        let rust_home = std::env::var("HOME").unwrap_or_default();
        for (name, directory) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            if !plan.env.iter().any(|var| var.name == name) {
                plan.env
                    .push(unified_exec::core::command::EnvVar::new(name, format!("{rust_home}/{directory}")));
            }
        }
        let (unsandboxed, _) = {
            let free = Bench::new();
            let mut same = plan.clone();
            same.sandbox = None;
            same.cwd = free.ws().display().to_string();
            free.try_run(same).unwrap()
        };
        if unsandboxed.status != ExitStatus::Code(0) {
            println!(
                "not probed here: {program} does not work without a sandbox either: {}",
                unsandboxed.text
            );
            continue;
        }
        let (ended, _) = bench.try_run(plan).unwrap();
        let text = ended.text.clone();
        assert_eq!(ended.status, ExitStatus::Code(0), "{program}: {text}");
        assert!(text.contains(says), "{program}: {text}");
    }
}

#[test]
fn a_repository_is_read_where_its_history_is_protected() {
    let bench = Bench::new();
    let make = "git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add f && \
                git commit -qm first";
    bench.sh(&bench.workspace_protecting(&[]), make).succeeded();
    let read = "git status --short; git diff --stat; git log --oneline; echo y > f; git diff | tail -1";
    let text = bench.sh(&bench.workspace(), read).succeeded();
    assert!(text.contains("first") && text.contains("+y"), "{text}");
    bench.sh(&bench.workspace(), "git commit -qam second").denied(&[
        "Read-only",
        "Permission denied",
        "Unable",
    ]);
}
