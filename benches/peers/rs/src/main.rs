//! peerbench: the same measurements over every system. JSON lines out.
mod local; mod peer; mod rawtcp; mod ssh; mod swerex; mod tmux; mod ton; mod uexec; mod util; mod wsp;
use peer::*;
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;
use util::*;

/// set when the client itself started the server
pub static SPID: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);

fn s(v: &[&str]) -> Vec<String> { v.iter().map(|x| x.to_string()).collect() }

fn connect(sys: &str) -> R<Box<dyn Peer>> {
    let (k, a) = sys.split_once('@').unwrap_or((sys, ""));
    let split = |v: &str| -> R<Vec<String>> { Ok(std::env::var(v)?.split(' ').map(String::from).collect()) };
    Ok(match k {
        "limit" => Box::new(local::Local::new()),
        "rawtcp" => Box::new(rawtcp::Raw::connect(a)?),
        "tonic-bidi" => Box::new(ton::Ton::connect(a, "bidi")?),
        "tonic-unary" => Box::new(ton::Ton::connect(a, "unary")?),
        "tonic-run" => Box::new(ton::Ton::connect(a, "run")?),
        "codex" => Box::new(wsp::Codex::connect(a, false)?),
        "codex-quickack" => Box::new(wsp::Codex::connect(a, true)?),
        "codex-stdio" => Box::new(wsp::Codex::stdio(a)?),
        "terminado" => Box::new(wsp::TermWs::new(a, true)),
        "nodepty" => Box::new(wsp::TermWs::new(a, false)),
        "ptyctl" => Box::new(wsp::TermWs::ptyctl(a)),
        "ssh-lib" => Box::new(ssh::Ssh::connect(a, &std::env::var("SSH_KEY")?)?),
        "ssh-cli" | "ssh-mux" => {
            let mut l = local::Local::new();
            l.prefix = split(if k == "ssh-cli" { "SSH_CMD" } else { "SSH_MUX_CMD" })?;
            let mut p = l.prefix.clone();
            p.insert(1, "-tt".into());
            l.pty_prefix = Some(p);
            Box::new(l)
        }
        "uexec" => Box::new(uexec::Uexec::connect(a)?),
        "tmux" => Box::new(tmux::Tmux::connect(a)?),
        _ => return Err(format!("unknown system {k}").into()),
    })
}

struct Ctx { name: String, sys: String, n: usize, bytes: u64, spid: i32, comms: Vec<String>, pty_only: bool, opt: HashMap<String, String> }

impl Ctx {
    fn stats(&self) -> Stats { stats(self.pid(), &self.comms) }
    fn pid(&self) -> i32 { match SPID.load(std::sync::atomic::Ordering::SeqCst) { 0 => self.spid, p => p } }
}

/// wait for the exit of `id`; returns (bytes, code, ns at exit, ns at first data)
fn finish(p: &mut dyn Peer, id: u64, to: u64) -> R<(u64, i32, u64, u64)> {
    let (mut b, mut first) = (0u64, 0u64);
    loop {
        match p.next(to)? {
            Ev::Data(i, d) if i == id => { if first == 0 && !d.is_empty() { first = now_ns(); } b += d.len() as u64; }
            Ev::Exit(i, c) if i == id => return Ok((b, c, now_ns(), first)),
            Ev::Timeout => return Err(format!("timed out after {b} bytes").into()),
            _ => {}
        }
    }
}
/// Closed after Exit, with what data still comes
fn drain(p: &mut dyn Peer, id: u64) -> R<u64> {
    let mut b = 0;
    loop {
        match p.next(3000)? {
            Ev::Data(i, d) if i == id => b += d.len() as u64,
            Ev::Closed(i) if i == id => return Ok(b),
            Ev::Timeout => return Ok(b),
            _ => {}
        }
    }
}
fn wait_data(p: &mut dyn Peer, id: u64, needle: &[u8]) -> R<()> {
    let mut acc: Vec<u8> = vec![];
    loop {
        match p.next(10_000)? {
            Ev::Data(i, d) if i == id => { acc.extend_from_slice(&d); if acc.windows(needle.len()).any(|w| w == needle) { return Ok(()); } }
            Ev::Timeout => return Err("no data".into()),
            Ev::Exit(..) => return Err("exited early".into()),
            _ => {}
        }
    }
}

fn m_exec(c: &Ctx) -> R<()> {
    let mut p = connect(&c.sys)?;
    let cases: Vec<(&str, Vec<String>, bool)> = vec![
        ("exec_true", s(&["/bin/true"]), false),
        ("exec_bash_c", s(&["bash", "-c", "true"]), false),
        ("exec_bash_lc", s(&["bash", "-lc", "true"]), false),
        ("exec_pty_true", s(&["/bin/true"]), true),
    ];
    for (m, a, pty) in cases {
        if c.pty_only && !pty && !c.opt.contains_key("all") { continue; }
        if pty && c.opt.contains_key("nopty") { continue; }
        if let Some(only) = c.opt.get("only") { if only != m { continue; } }
        let mut n = c.n;
        if m == "exec_bash_lc" { n = (n / 4).max(20); }
        let mut v = vec![];
        for i in 0..n + 5 {
            let t = now_ns();
            let id = p.start(&a, pty)?;
            let (_, code, t1, _) = finish(&mut *p, id, 10_000)?;
            if code != 0 && code != -1 { return Err(format!("{m}: exit {code}").into()); }
            drain(&mut *p, id)?;
            if i >= 5 { v.push(t1 - t); }
        }
        emit_lat(m, &c.name, v);
    }
    Ok(())
}

fn m_conc(c: &Ctx) -> R<()> {
    let pty = c.pty_only;
    // two shapes: one connection with 16 in flight, and 16 connections with one each
    for (label, conns, win) in [("c16_1conn", 1usize, 16usize), ("c16_16conn", 16, 1)] {
        if c.opt.get("shape").is_some_and(|s| s != label) { continue; }
        let total = c.n;
        let t = now_ns();
        let hs: Vec<_> = (0..conns).map(|_| { let sys = c.sys.clone(); std::thread::spawn(move || -> R<u64> {
            let mut p = connect(&sys)?;
            let t_conn = now_ns();
            let a = s(&["/bin/true"]);
            let (mut started, mut done, mine) = (0, 0, total / conns);
            while started < win.min(mine) { p.start(&a, pty)?; started += 1; }
            while done < mine {
                match p.next(20_000)? {
                    Ev::Exit(..) => { done += 1; if started < mine { p.start(&a, pty)?; started += 1; } }
                    Ev::Timeout => return Err("timed out".into()),
                    _ => {}
                }
            }
            Ok(t_conn)
        })}).collect();
        let mut t0 = t;
        for h in hs { t0 = t0.max(h.join().unwrap()?); }
        // from when the last connection stood
        let dt = (now_ns() - if conns == 1 { t0 } else { t }) as f64 / 1e9;
        emit(&format!("exec_per_s_{label}"), &c.name, total as f64 / dt, "1/s", json!({"n": total}));
    }
    Ok(())
}

fn m_stream(c: &Ctx) -> R<()> {
    let mut p = connect(&c.sys)?;
    let log = c.opt.get("log").cloned().unwrap_or("/tmp/peerbench.log.txt".into());
    let loglen = std::fs::metadata(&log).map(|m| m.len()).unwrap_or(0);
    let z = c.bytes.to_string();
    let pb = c.bytes / 4;
    let zp = pb.to_string();
    let cases: Vec<(&str, Vec<String>, bool, u64)> = vec![
        ("stream_pipe_zero", s(&["head", "-c", &z, "/dev/zero"]), false, c.bytes),
        ("stream_pipe_log", s(&["cat", &log]), false, loglen),
        ("stream_pty_zero", s(&["bash", "-c", &format!("stty raw -echo; exec head -c {zp} /dev/zero")]), true, pb),
        ("stream_pty_log", s(&["bash", "-c", &format!("stty raw -echo; exec head -c {zp} {log}")]), true, pb.min(loglen)),
    ];
    for (m, a, pty, want) in cases {
        if c.pty_only && !pty { continue; }
        if let Some(only) = c.opt.get("only") { if only != m { continue; } }
        reset_hwm(c.pid(), &c.comms);
        let s0 = c.stats();
        let t = now_ns();
        let id = p.start(&a, pty)?;
        // CPU is read while the server's per-connection processes are still there
        let r = finish(&mut *p, id, 60_000);
        let (b, _, t1, first) = match r { Ok(x) => x, Err(e) => { emit(m, &c.name, -1.0, "MB/s", json!({"error": e.to_string()})); return Ok(()); } };
        let s1 = c.stats();
        let b = b + drain(&mut *p, id)?;
        let dt = (t1 - t) as f64 / 1e9;
        emit(m, &c.name, b as f64 / 1e6 / dt, "MB/s", json!({"bytes": b, "whole": b == want, "lost": want as i64 - b as i64, "secs": dt,
            "cpu_s_per_GB": (s1.cpu_s - s0.cpu_s) / (b as f64 / 1e9), "peak_rss_mb": s1.hwm_kb as f64 / 1024.0, "rss0_mb": s0.rss_kb as f64 / 1024.0,
            "ttfb_us": if first > 0 { (first - t) / 1000 } else { 0 }}));
    }
    Ok(())
}

fn m_stall(c: &Ctx) -> R<()> {
    let mut p = connect(&c.sys)?;
    for pty in [false, true] {
        if c.pty_only && !pty { continue; }
        let want = c.bytes / if pty { 4 } else { 1 } + std::process::id() as u64 % 1000;
        let w = want.to_string();
        let a = if pty { s(&["bash", "-c", &format!("stty raw -echo; exec head -c {w} /dev/zero")]) } else { s(&["head", "-c", &w, "/dev/zero"]) };
        reset_hwm(c.pid(), &c.comms);
        let s0 = c.stats();
        let id = p.start(&a, pty)?;
        let mut got = 0u64;
        loop { match p.next(10_000)? { Ev::Data(_, d) => { got += d.len() as u64; break; } Ev::Timeout => return Err("no data".into()), _ => {} } }
        let mut prog = vec![];
        let mut rss = vec![];
        for _ in 0..6 {
            std::thread::sleep(Duration::from_secs(1));
            let k: u64 = find_arg(&w).iter().map(|p| wchar(*p)).max().unwrap_or(u64::MAX);
            prog.push(if k == u64::MAX { -1 } else { (k / 1024) as i64 });
            rss.push(c.stats().rss_kb / 1024);
        }
        let mut code = None;
        loop {
            match p.next(20_000) {
                Ok(Ev::Data(_, d)) => got += d.len() as u64,
                Ok(Ev::Exit(_, x)) => { code = Some(x); break; }
                Ok(Ev::Timeout) => break,
                Err(e) => { eprintln!("{}: {e}", c.name); break; }
                _ => {}
            }
        }
        if code.is_some() { got += drain(&mut *p, id).unwrap_or(0); }
        let s1 = c.stats();
        emit(if pty { "stall_pty_lost" } else { "stall_pipe_lost" }, &c.name, want as f64 - got as f64, "B", json!({
            "want": want, "got": got, "exit": code, "child_written_kib_by_s": prog, "server_rss_mib_by_s": rss, "rss0_mib": s0.rss_kb / 1024, "hwm_mib": s1.hwm_kb / 1024,
            "client_buffer_note": "child_written counts what the child could write in each second while the client read nothing; -1: child already gone"}));
    }
    Ok(())
}

fn m_echo(c: &Ctx) -> R<()> {
    for (m, cmd) in [("echo_app", "stty raw -echo; echo RR; exec cat"), ("echo_tty", "stty raw -icanon echo; echo RR; exec sleep 100")] {
        let mut p = connect(&c.sys)?;
        let id = p.start(&s(&["bash", "-c", cmd]), true)?;
        wait_data(&mut *p, id, b"RR")?;
        std::thread::sleep(Duration::from_millis(100));
        let mut v = vec![];
        for i in 0..c.n + 20 {
            let t = now_ns();
            p.write(id, b"a")?;
            loop { match p.next(5000)? { Ev::Data(_, d) if d.contains(&b'a') => break, Ev::Timeout => return Err("no echo".into()), Ev::Exit(..) => return Err("gone".into()), _ => {} } }
            if i >= 20 { v.push(now_ns() - t); }
        }
        emit_lat(m, &c.name, v);
        p.kill(id)?;
        let _ = finish(&mut *p, id, 3000);
    }
    Ok(())
}

fn drain_all(p: &mut dyn Peer) {
    loop { match p.next(100) { Ok(Ev::Timeout) => break, Ok(_) => {} Err(e) => { eprintln!("{e}"); break } } }
}

fn m_density(c: &Ctx) -> R<()> {
    let mut p = connect(&c.sys)?;
    let s0 = c.stats();
    let mark = format!("1000.{}", std::process::id()); // ours alone, so that counting and killing touch nothing else
    let mark = mark.as_str();
    let mut v = vec![];
    let t0 = now_ns();
    let mut ids = vec![];
    for _ in 0..c.n {
        let t = now_ns();
        let id = p.start(&s(&["sleep", mark]), true)?;
        // a start that only sends is not an open: codex answers by the id; take the queue's pace at the end
        ids.push(id);
        v.push(now_ns() - t);
    }
    // all up: count the sleepers under the server
    let deadline = now_ns() + 60_000_000_000;
    loop {
        let k = find_arg(mark).len();
        if k >= c.n || now_ns() > deadline { break; }
        drain_all(&mut *p); // a client that does not read would hold some servers back
    }
    let all = (now_ns() - t0) as f64 / 1e6;
    drain_all(&mut *p);
    std::thread::sleep(Duration::from_secs(1));
    let s1 = c.stats();
    std::thread::sleep(Duration::from_secs(5));
    let s2 = c.stats();
    let up = find_arg(mark).len();
    emit("density_open_all", &c.name, all, "ms", json!({"n": c.n, "up": up, "per_session_ms": all / c.n as f64}));
    emit("density_rss_per_session", &c.name, (s1.rss_kb as f64 - s0.rss_kb as f64) / c.n as f64, "KiB", json!({
        "n": c.n, "rss0_mib": s0.rss_kb / 1024, "rss_mib": s1.rss_kb / 1024, "pss_per_session_kib": (s1.pss_kb as f64 - s0.pss_kb as f64) / c.n as f64,
        "anon_per_session_kib": (s1.anon_kb as f64 - s0.anon_kb as f64) / c.n as f64}));
    emit("density_threads", &c.name, s1.threads as f64, "threads", json!({"n": c.n, "before": s0.threads, "server_procs": s1.procs, "per_session": (s1.threads as f64 - s0.threads as f64) / c.n as f64}));
    emit("density_idle_cpu", &c.name, (s2.cpu_s - s1.cpu_s) / 5.0 * 100.0, "% of one core", json!({"n": c.n}));
    let t = now_ns();
    for id in &ids { let _ = p.kill(*id); }
    let dl = now_ns() + 20_000_000_000;
    while !find_arg(mark).is_empty() && now_ns() < dl { drain_all(&mut *p); }
    let left = find_arg(mark).len();
    emit("density_kill_all", &c.name, (now_ns() - t) as f64 / 1e6, "ms", json!({"n": c.n, "left": left}));
    drop(p);
    if left > 0 { for q in find_arg(mark) { unsafe { libc::kill(q, libc::SIGKILL) }; } }
    Ok(())
}

fn m_ttfb(c: &Ctx) -> R<()> {
    let mut p = connect(&c.sys)?;
    let mut v = vec![];
    let mut late = 0;
    for i in 0..c.n + 5 {
        let t = now_ns();
        let id = p.start(&s(&["/bin/echo", "x"]), c.pty_only)?;
        let (_, _, _, first) = finish(&mut *p, id, 10_000)?;
        drain(&mut *p, id)?;
        if i >= 5 && first > 0 { v.push(first - t); }
        if first == 0 { late += 1; }
    }
    emit_lat("ttfb_echo", &c.name, v);
    emit("exit_told_before_output", &c.name, late as f64 / (c.n + 5) as f64 * 100.0, "% of runs", json!({"n": c.n + 5}));
    Ok(())
}

/// keystroke echo while another process on the same connection floods its output and the client reads it all
fn m_flood(c: &Ctx) -> R<()> {
    let mut p = connect(&c.sys)?;
    let b = p.start(&s(&["bash", "-c", "stty raw -echo; echo RR; exec cat"]), true)?;
    wait_data(&mut *p, b, b"RR")?;
    let a = p.start(&s(&["cat", "/dev/zero"]), false)?;
    let t0 = now_ns();
    while now_ns() - t0 < 500_000_000 { p.next(5000)?; }
    let mut v = vec![];
    let mut flood = 0u64;
    let t0 = now_ns();
    while v.len() < c.n && now_ns() - t0 < 15_000_000_000 {
        let t = now_ns();
        p.write(b, b"a")?;
        loop {
            match p.next(10_000)? {
                Ev::Data(i, d) if i == b && d.contains(&b'a') => break,
                Ev::Data(_, d) => flood += d.len() as u64,
                Ev::Timeout => return Err("no echo".into()),
                Ev::Exit(..) => return Err("gone".into()),
                _ => {}
            }
        }
        v.push(now_ns() - t);
    }
    let mbs = flood as f64 / 1e6 / ((now_ns() - t0) as f64 / 1e9);
    emit_lat("echo_while_flooded", &c.name, v);
    emit("flood_beside_echo", &c.name, mbs, "MB/s", json!({}));
    let _ = p.kill(a);
    let _ = p.kill(b);
    Ok(())
}

fn m_wake(c: &Ctx) -> R<()> {
    let mut p = connect(&c.sys)?;
    let me = std::env::current_exe()?.to_string_lossy().into_owned();
    let ms = c.opt.get("ms").cloned().unwrap_or("300".into());
    let mut v = vec![];
    for _ in 0..c.n {
        let id = p.start(&s(&[&me, "stamp", &ms]), c.pty_only)?;
        let mut acc = vec![];
        let mut exited = false;
        loop {
            match p.next(10_000)? {
                Ev::Exit(i, _) if i == id => exited = true, // some tell the exit before the last output
                Ev::Data(i, d) if i == id => { let t = now_ns(); acc.extend_from_slice(&d); if acc.contains(&b'\n') { v.push(t - String::from_utf8_lossy(&acc).trim().parse::<u64>()?); break; } }
                Ev::Timeout => return Err("no stamp".into()),
                _ => {}
            }
        }
        if !exited { finish(&mut *p, id, 10_000)?; }
        drain(&mut *p, id)?;
    }
    emit_lat("wake_after_write", &c.name, v);
    Ok(())
}

fn m_cancel(c: &Ctx) -> R<()> {
    let pty = c.pty_only || c.opt.contains_key("pty");
    let mut p = connect(&c.sys)?;
    let mut v = vec![];
    let mark = format!("1001.{}", std::process::id());
    for i in 0..c.n {
        let id = p.start(&s(&["bash", "-c", &format!("echo RR; exec sleep {mark}")]), pty)?;
        wait_data(&mut *p, id, b"RR")?;
        std::thread::sleep(Duration::from_millis(5));
        let t = now_ns();
        p.kill(id)?;
        match finish(&mut *p, id, 15_000) {
            Ok((_, _, t1, _)) => if i >= 2 { v.push(t1 - t) },
            Err(e) => { emit("cancel_exit_seen", &c.name, -1.0, "us", json!({"error": e.to_string()})); break; }
        }
        drain(&mut *p, id)?;
    }
    for q in find_arg(&mark) { unsafe { libc::kill(q, libc::SIGKILL) }; }
    emit_lat(if pty { "cancel_exit_seen_pty" } else { "cancel_exit_seen" }, &c.name, v);
    // grandchildren: one in the group, one with its own session
    let u = std::process::id();
    let (a, b, d) = (format!("71001.{u}"), format!("71002.{u}"), format!("71003.{u}"));
    let id = p.start(&s(&["bash", "-c", &format!("sleep {a} & setsid sleep {b} & echo RR; sleep {d}; :")]), pty)?;
    wait_data(&mut *p, id, b"RR")?;
    std::thread::sleep(Duration::from_millis(300));
    let t = now_ns();
    p.kill(id)?;
    let fin = finish(&mut *p, id, 6_000);
    std::thread::sleep(Duration::from_millis(700));
    let alive = |x: &str| find_arg(x).len();
    emit(if pty { "cancel_tree_pty" } else { "cancel_tree" }, &c.name, (alive(&a) + alive(&b) + alive(&d)) as f64, "left alive", json!({
        "same_group_bg_alive": alive(&a), "own_session_alive": alive(&b), "fg_alive": alive(&d),
        "exit_seen": fin.is_ok(), "exit_ms": fin.as_ref().map(|f| (f.2 - t) as f64 / 1e6).unwrap_or(-1.0), "err": fin.err().map(|e| e.to_string())}));
    // and what a dropped client leaves
    for x in [&a, &b, &d] { for q in find_arg(x) { unsafe { libc::kill(q, libc::SIGKILL) }; } }
    let _ = drain(&mut *p, id);
    if let Ok(id) = p.start(&s(&["bash", "-c", &format!("echo RR; exec sleep {a}")]), pty) {
        if wait_data(&mut *p, id, b"RR").is_ok() {
            let t = now_ns();
            while alive(&a) == 0 && now_ns() - t < 2_000_000_000 { std::thread::sleep(Duration::from_millis(2)); }
            drop(p);
            let t = now_ns();
            let mut gone = -1.0;
            while now_ns() - t < 5_000_000_000 { if alive(&a) == 0 { gone = (now_ns() - t) as f64 / 1e6; break; } std::thread::sleep(Duration::from_millis(1)); }
            emit(if pty { "client_gone_child_dead_pty" } else { "client_gone_child_dead" }, &c.name, gone, "ms (-1: still alive after 5 s)", json!({}));
            for q in find_arg(&a) { unsafe { libc::kill(q, libc::SIGKILL) }; }
        }
    }
    Ok(())
}

/// bytes over one local hop, no framework
fn m_hop(c: &Ctx) -> R<()> {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let n = c.n.max(2000);
    fn pp(mut a: impl Read + Write, n: usize) -> Vec<u64> {
        let mut b = [0u8; 64];
        let mut v = vec![];
        for _ in 0..n { let t = now_ns(); a.write_all(b"x").unwrap(); let _ = a.read(&mut b).unwrap(); v.push(now_ns() - t); }
        v[n / 10..].to_vec()
    }
    fn serve(mut b: impl Read + Write + Send + 'static) { std::thread::spawn(move || { let mut x = [0u8; 64]; while let Ok(k) = b.read(&mut x) { if k == 0 { break; } if b.write_all(&x[..k]).is_err() { break; } } }); }
    let (a, b) = UnixStream::pair()?;
    serve(b);
    emit_lat("hop_unix_1B", "limit", pp(a, n));
    let l = std::net::TcpListener::bind("127.0.0.1:0")?;
    let a = std::net::TcpStream::connect(l.local_addr()?)?;
    a.set_nodelay(true)?;
    let (b, _) = l.accept()?;
    b.set_nodelay(true)?;
    serve(b);
    emit_lat("hop_tcp_1B", "limit", pp(a, n));
    // bulk over TCP: what loopback carries
    for buf in [16384usize, 65536, 262144] {
        let a = std::net::TcpStream::connect(l.local_addr()?)?;
        let (mut b, _) = l.accept()?;
        let total = c.bytes;
        let th = std::thread::spawn(move || { let v = vec![1u8; buf]; let mut k = 0; while k < total { if b.write_all(&v).is_err() { break; } k += buf as u64; } });
        let mut a = a;
        let mut v = vec![0u8; buf];
        let t = now_ns();
        let mut got = 0u64;
        while let Ok(k) = a.read(&mut v) { if k == 0 { break; } got += k as u64; }
        emit(&format!("hop_tcp_bulk_{buf}B"), "limit", got as f64 / 1e6 / ((now_ns() - t) as f64 / 1e9), "MB/s", json!({}));
        th.join().unwrap();
    }
    // spawn primitives
    for (m, a) in [("spawn_posix_spawn_wait", s(&["/bin/true"]))] {
        let mut v = vec![];
        for _ in 0..1000 {
            let t = now_ns();
            let ch = spawn_pipe(&a, &env_list(), false)?;
            reap(ch.pid);
            v.push(now_ns() - t);
            unsafe { libc::close(ch.out); libc::close(ch.err.unwrap()); }
        }
        emit_lat(m, "limit", v);
    }
    {
        let mut v = vec![];
        let a = std::ffi::CString::new("/bin/true").unwrap();
        let ap = [a.as_ptr(), std::ptr::null()];
        let ep = [std::ptr::null()];
        for _ in 0..1000 {
            let t = now_ns();
            unsafe {
                let pid = libc::fork();
                if pid == 0 { libc::execve(a.as_ptr(), ap.as_ptr(), ep.as_ptr()); libc::_exit(127); }
                reap(pid);
            }
            v.push(now_ns() - t);
        }
        emit_lat("spawn_fork_exec_wait", "limit", v);
    }
    {
        let mut v = vec![];
        for _ in 0..500 {
            let t = now_ns();
            let ch = spawn_pty(&s(&["/bin/true"]), &env_list())?;
            reap(ch.pid);
            v.push(now_ns() - t);
            unsafe { libc::close(ch.out) };
        }
        emit_lat("spawn_pty_wait", "limit", v);
    }
    Ok(())
}

/// PTY copy in one process, by how the reader waits: the kernel hands out at most 4095 bytes a read,
/// so a reader that is woken for each of them is slower than one that naps and then reads until EAGAIN
fn m_ptycopy(c: &Ctx) -> R<()> {
    let n = c.bytes;
    for nap_us in [-1i64, 0, 20, 50, 100, 200, 500, 1000] {
        let ch = spawn_pty(&s(&["bash", "-c", &format!("stty raw -echo; exec head -c {n} /dev/zero")]), &env_list())?;
        let mut buf = vec![0u8; 65536];
        let (mut got, mut reads, mut naps) = (0u64, 0u64, 0u64);
        let s0 = stats(std::process::id() as i32, &[]);
        let t = now_ns();
        if nap_us >= 0 { set_nonblock(ch.out); }
        loop {
            let k = unsafe { libc::read(ch.out, buf.as_mut_ptr() as *mut _, buf.len()) };
            if k > 0 { got += k as u64; reads += 1; continue; }
            if k < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) {
                let mut p = libc::pollfd { fd: ch.out, events: libc::POLLIN, revents: 0 };
                unsafe { libc::poll(&mut p, 1, -1) };
                if nap_us > 0 && got > 65536 { naps += 1; std::thread::sleep(Duration::from_micros(nap_us as u64)); }
                continue;
            }
            break;
        }
        let dt = (now_ns() - t) as f64 / 1e9;
        let s1 = stats(std::process::id() as i32, &[]);
        reap(ch.pid);
        unsafe { libc::close(ch.out) };
        let label = if nap_us < 0 { "blocking".to_string() } else { format!("nap{nap_us}us") };
        emit(&format!("ptycopy_{label}"), "limit", got as f64 / 1e6 / dt, "MB/s", json!({"whole": got == n, "bytes_per_read": got as f64 / reads as f64, "naps": naps, "cpu_s_per_GB": (s1.cpu_s - s0.cpu_s) / (got as f64 / 1e9)}));
    }
    Ok(())
}

fn main() {
    // a server's own descriptors and 1000 terminals
    unsafe {
        let mut r: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut r);
        r.rlim_cur = r.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &r);
    }
    let a: Vec<String> = std::env::args().collect();
    let r = match a.get(1).map(|x| x.as_str()) {
        Some("serve-raw") => rawtcp::serve(&a[2]),
        Some("serve-tonic") => ton::serve(&a[2]),
        Some("stamp") => { std::thread::sleep(Duration::from_millis(a[2].parse().unwrap())); println!("{}", now_ns()); Ok(()) }
        Some("m") => measure(&a[2..]),
        _ => Err("usage: peerbench m METRIC SYSTEM[@ADDR] [name=..] [n=..] [bytes=..] [spid=..] [comms=a,b] [ptyonly=1]".into()),
    };
    if let Err(e) = r {
        println!("{}", json!({"metric": a.get(2), "system": a.get(3), "error": e.to_string()}));
        std::process::exit(1);
    }
}

fn measure(a: &[String]) -> R<()> {
    let opt: HashMap<String, String> = a[2..].iter().filter_map(|x| x.split_once('=')).map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let g = |k: &str, d: u64| opt.get(k).and_then(|v| v.parse().ok()).unwrap_or(d);
    let c = Ctx {
        name: opt.get("name").cloned().unwrap_or(a[1].split('@').next().unwrap().to_string()),
        sys: a[1].clone(), n: g("n", 200) as usize, bytes: g("bytes", 256 << 20),
        spid: g("spid", std::process::id() as u64) as i32,
        comms: opt.get("comms").map(|s| s.split(',').map(String::from).collect()).unwrap_or_default(),
        pty_only: opt.contains_key("ptyonly"), opt,
    };
    if let Some(addr) = c.sys.strip_prefix("swerex@") {
        return swerex::run(&a[0], &c.name, addr, &std::env::var("SWEREX_KEY")?, c.n, c.bytes, c.spid, &c.comms);
    }
    match a[0].as_str() {
        "exec" => m_exec(&c), "conc" => m_conc(&c), "stream" => m_stream(&c), "stall" => m_stall(&c), "echo" => m_echo(&c),
        "density" => m_density(&c), "ttfb" => m_ttfb(&c), "wake" => m_wake(&c), "flood" => m_flood(&c), "ptycopy" => m_ptycopy(&c), "cancel" => m_cancel(&c), "hop" => m_hop(&c),
        "rpc" => ton::Ton::connect(c.sys.split_once('@').unwrap().1, "bidi")?.micro(&c.name),
        "rpcstream" => {
            let mut t = ton::Ton::connect(c.sys.split_once('@').unwrap().1, "bidi")?;
            for ch in [4096, 16384, 65536, 262144, 1048576] {
                let s0 = c.stats();
                t.stream_micro(&c.name, c.bytes, ch)?;
                let s1 = c.stats();
                emit(&format!("rpc_stream_cpu_{ch}B"), &c.name, (s1.cpu_s - s0.cpu_s) / (c.bytes as f64 / 1e9), "s/GB", json!({}));
            }
            Ok(())
        }
        m => Err(format!("unknown metric {m}").into()),
    }
}
