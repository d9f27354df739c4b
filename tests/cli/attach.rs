//! `uexec attach` and `exec -it` in a terminal of their own, as a person has them.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::harness::{Server, eventually};

/// A person at a terminal, in which a shell runs: what `uexec` leaves behind is left to the shell.
struct Person {
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<Vec<u8>>>,
    shell: Box<dyn portable_pty::Child + Send + Sync>,
}

impl Person {
    fn sit_down(server: &Server) -> Self {
        let pair = native_pty_system()
            .openpty(PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 })
            .expect("a terminal");
        let mut command = CommandBuilder::new("sh");
        command.cwd(server.place.path());
        command.env("UEXEC_RUNTIME_DIR", server.place.runtime_dir());
        command.env("PS1", "$ ");
        command.env_remove("UEXEC_SESSION");
        let shell = pair.slave.spawn_command(command).expect("a shell");
        let mut reader = pair.master.try_clone_reader().expect("readable");
        let keyboard = pair.master.take_writer().expect("writable");
        let screen = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&screen);
        std::thread::Builder::new()
            .spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(read @ 1..) = reader.read(&mut piece) {
                    seen.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..read]);
                }
            })
            .expect("a thread");
        Self { master: pair.master, keyboard, screen, shell }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("typed");
        self.keyboard.flush().expect("typed");
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits for words that were not on the screen before.
    #[track_caller]
    fn sees(&self, words: &str) {
        eventually(&format!("{words:?} on the screen"), || self.screen().contains(words));
    }

    /// The settings of the terminal, which only a terminal at rest has.
    fn at_rest(&mut self, mark: &str) {
        self.types(&format!(
            "stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo | tr '\\n' +; echo {mark}''\n"
        ));
        let wanted = ["icanon+echo+", "echo+icanon+"].map(|modes| format!("{modes}{mark}"));
        eventually("the terminal is at rest", || {
            wanted.iter().any(|wanted| self.screen().contains(wanted.as_str()))
        });
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.shell.kill().ok();
        self.shell.wait().ok();
    }
}

/// A line for the shell. What is typed before `uexec` has gone is not the shell's, so the shell says when it is back.
fn uexec(args: &str, back: u32) -> String {
    format!("{} {args}; echo back-$(({back}+0)) code=$?\n", env!("CARGO_BIN_EXE_uexec"))
}

#[test]
fn a_person_types_lets_go_comes_back_and_the_terminal_is_restored() {
    let server = Server::start();
    let id = server.detached(&["--tty", "--", "python3", "-q"]);
    server.uexec(&["wait", &id, "--text", ">>> "]).ok();
    let mut person = Person::sit_down(&server);
    person.types(&uexec(&format!("attach {id}"), 1));
    person.sees(">>> ");
    person.types("6*7\r");
    person.sees("42");
    // The size of our terminal is that of the process, and follows.
    person.types("import os; print(os.get_terminal_size())\r");
    person.sees("columns=80, lines=24");
    let size = PtySize { rows: 33, cols: 99, pixel_width: 0, pixel_height: 0 };
    person.master.resize(size).expect("resized");
    eventually("the size arrives", || {
        server.uexec(&["ps", "--json"]).json()["processes"][0]["terminal_size"]["cols"] == 99
    });
    // Ctrl-C is for the process.
    person.types("import time; time.sleep(60)\r");
    person.types("\x03");
    person.sees("KeyboardInterrupt");
    person.types("\x1dd");
    person.sees("let go of");
    person.sees("back-1 code=0");
    person.at_rest("rest1");
    assert!(server.uexec(&["ps"]).ok().contains("running"));

    person.types(&uexec(&format!("attach --no-replay {id}"), 2));
    person.types("print('wel' + 'come back')\r");
    person.sees("welcome back");
    person.types("exit(9)\r");
    person.sees("back-2 code=9");
    person.at_rest("rest2");
}

#[test]
fn letting_go_of_a_full_screen_program_leaves_a_usable_terminal() {
    let server = Server::start();
    let id = server.detached(&["--tty", "--", r"printf '\033[?1049h\033[?25lfull screen'; sleep 300"]);
    server.uexec(&["wait", &id, "--text", "full screen"]).ok();
    let mut person = Person::sit_down(&server);
    person.types(&uexec(&format!("attach {id}"), 1));
    person.sees("full screen");
    person.types("\x1dd");
    person.sees("\x1b[?25h\x1b[?1049l");
    person.sees("back-1 code=0");
    person.at_rest("rest");
}

#[test]
fn a_terminal_is_restored_when_the_server_dies_and_when_we_are_ended() {
    let server = Server::start();
    let id = server.detached(&["--tty", "--", "cat"]);
    let mut person = Person::sit_down(&server);
    person.types(&uexec(&format!("attach {id}"), 1));
    person.types("hello\r");
    person.sees("hello\r\nhello\r\n");
    let pid = attached(&id);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    person.sees("back-1 code=143");
    person.at_rest("rest1");

    person.types(&uexec(&format!("attach --no-replay {id}"), 2));
    person.types("again\r");
    person.sees("again\r\nagain\r\n");
    server.running.signal(rustix::process::Signal::KILL);
    person.sees("error: ");
    person.sees("back-2 code=125");
    person.at_rest("rest2");
}

/// The `uexec attach` that a person's shell has started.
fn attached(id: &str) -> rustix::process::Pid {
    let wanted = format!("attach\0{id}\0");
    let processes = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
    let found = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&wanted))
    });
    found.and_then(rustix::process::Pid::from_raw).expect("attached")
}

#[test]
fn lines_can_be_piped_in() {
    let server = Server::start();
    let id = server.detached(&["--tty", "--", "cat"]);
    let done = server.uexec_with_input(&["attach", "--eof", &id], b"piped\n");
    assert_eq!(done.ok(), "piped\r\npiped\r\n");
}

#[test]
fn exec_takes_the_terminal_over_and_gives_it_back() {
    let server = Server::start();
    let mut person = Person::sit_down(&server);
    person.types(&uexec("exec -it -- python3 -q", 1));
    person.sees(">>> ");
    person.types("import os; print(6*7, os.get_terminal_size())\r");
    person.sees("42 os.terminal_size(columns=80, lines=24)");
    person.types("exit(4)\r");
    person.sees("back-1 code=4");
    person.at_rest("rest");
}
