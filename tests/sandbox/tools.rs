//! Ordinary tools at work in a workspace without a network.

use std::sync::Arc;

use unified_exec::core::command::EnvVar;
use unified_exec::core::spawn::Stdio;

use crate::bench::Bench;

/// A tool that must be installed for its test to mean something, and what it does.
struct Tool {
    needs: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    line: &'static str,
}

macro_rules! tools {
    ($($name:ident: $tool:expr;)*) => {
        $(#[test] fn $name() { work(&$tool); })*
    };
}

tools! {
    bash: Tool {
        needs: &["bash"],
        files: &[],
        line: "printf 'b\\na\\n' | sort | tee sorted | head -1 && cat <<< here && cat <<E\ndocument\nE\n\
               diff <(echo 1) <(echo 1) && mkfifo p && (echo through > p &) && cat p",
    };
    git: Tool {
        needs: &["git"],
        files: &[("file", "text\n")],
        line: "git init -q . && git config user.email a@b && git config user.name n && git add . && git commit -qm first && \
               echo more >> file && git diff --stat && git stash -q && git stash pop -q && git checkout -qb other && \
               git commit -qam second && git log --oneline && git clone -q . ../ws/clone",
    };
    python_pools: Tool {
        needs: &["/usr/bin/python3"],
        files: &[("pool.py", "import multiprocessing as m, multiprocessing.shared_memory as s\n\
                              def f(x): return x * x\n\
                              if __name__ == '__main__':\n\
                              \x20   with m.Pool(2) as p: assert p.map(f, range(9))[-1] == 64\n\
                              \x20   m.Semaphore(2).acquire(); b = s.SharedMemory(create=True, size=9); b.unlink()\n\
                              \x20   with m.Manager() as g: assert g.list([1])[0] == 1\n")],
        line: "/usr/bin/python3 pool.py",
    };
    python_venv: Tool {
        needs: &["/usr/bin/python3"],
        files: &[],
        line: "/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'",
    };
    node_workers: Tool {
        needs: &["node"],
        files: &[("w.js", "const { Worker, isMainThread, parentPort } = require('worker_threads');\n\
                           if (!isMainThread) { parentPort.postMessage(6 * 7); } else {\n\
                           new Worker(__filename).on('message', m => { require('fs').writeFileSync('out', '' + m);\n\
                           console.log(require('child_process').execSync('cat out').toString()); }); }\n")],
        line: "node w.js && test $(cat out) = 42",
    };
    npm_offline: Tool {
        needs: &["npm"],
        files: &[("lib/package.json", r#"{"name":"lib","version":"1.0.0","main":"i.js"}"#), ("lib/i.js", "module.exports = 5")],
        line: "export npm_config_cache=$PWD/.npm npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false; \
               npm init -y >/dev/null && npm install --offline --no-audit ./lib && npm pkg set scripts.go='node -p 1+1' && \
               npm run -s go && node -e 'if (require(\"lib\") !== 5) process.exit(1)'",
    };
    make_and_gcc: Tool {
        needs: &["make", "gcc"],
        files: &[("Makefile", "all: x\n\t./x\nx: x.c\n\tgcc -O1 -o x x.c\n"),
                 ("x.c", "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n")],
        line: "make -j2 && ./x",
    };
    sqlite: Tool {
        needs: &["sqlite3"],
        files: &[],
        line: "sqlite3 db 'pragma journal_mode=wal; create table t(a); insert into t values (7); select a from t'",
    };
    vim: Tool {
        needs: &["vim"],
        files: &[("file", "one\n")],
        line: "vim -es -u NONE -c '%s/one/two/' -c wq file </dev/null; grep -q two file",
    };
    archives: Tool {
        needs: &["tar", "gzip"],
        files: &[("d/file", "text")],
        line: "tar czf d.tgz d && rm -r d && tar xzf d.tgz && cat d/file",
    };
}

fn work(tool: &Tool) {
    let bench = Bench::new();
    let profile = bench.workspace_protecting(&[]);
    for need in tool.needs {
        let found =
            std::process::Command::new("sh").args(["-c", &format!("command -v {need}")]).output().unwrap();
        if !found.status.success() {
            return println!("not probed here: {need} is not installed");
        }
    }
    for (name, text) in tool.files {
        bench.write(&format!("ws/{name}"), text);
    }
    let ended = bench.sh(&profile, &format!("set -e; {}", tool.line));
    println!("{}", ended.text);
    ended.succeeded();
}

#[test]
fn git_reads_a_protected_repository_and_does_not_write_it() {
    let bench = Bench::new();
    let open = bench.workspace_protecting(&[]);
    bench.write("ws/file", "text\n");
    let prepare = "git init -q . && git config user.email a@b && git config user.name n && git add . && git commit -qm first";
    bench.sh(&open, prepare).succeeded();
    let guarded = bench.workspace();
    let line =
        "echo more >> file && git status --short && git diff && git log --oneline && git show HEAD:file";
    assert!(bench.sh(&guarded, line).succeeded().contains("+more"));
    bench.sh(&guarded, "git commit -qam second").denied(&["Read-only file system", "Permission denied"]);
    bench
        .sh(&guarded, "git config core.hooksPath /tmp")
        .denied(&["Read-only file system", "Permission denied"]);
}

#[test]
fn cargo_builds_offline_with_its_home_read_only() {
    let bench = Bench::new();
    let Some(home) = std::env::var_os("HOME").map(std::path::PathBuf::from) else { return };
    let cargo = home.join(".cargo/bin/cargo");
    if !std::fs::exists(&cargo).unwrap_or(false) {
        return println!("not probed here: no cargo in {}", home.display());
    }
    bench
        .write("ws/Cargo.toml", "[package]\nname = \"tiny\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n");
    bench.write("ws/build.rs", "fn main() { println!(\"cargo:rustc-cfg=built\"); }\n");
    bench.write("ws/lib.rs", "#[test]\nfn works() { assert_eq!(1 + 1, 2); }\n");
    let profile = bench.workspace_protecting(&[]);
    let mut plan = bench.plan(
        &profile,
        &["bash", "-c", "cargo test --offline && test -d target"],
        Stdio::Pipes { stdin: false },
    );
    Arc::make_mut(&mut plan.env).retain(|variable| variable.name != "PATH" && variable.name != "HOME");
    Arc::make_mut(&mut plan.env).push(EnvVar::new("HOME", home.display().to_string()));
    Arc::make_mut(&mut plan.env)
        .push(EnvVar::new("PATH", format!("{}/.cargo/bin:/usr/bin:/bin", home.display())));
    bench.try_run(plan).unwrap().0.succeeded();
}
