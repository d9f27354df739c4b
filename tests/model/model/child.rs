//! A child as the model sees it: a list of what it does when, the input it has not read, and one descendant.

use std::collections::VecDeque;

use crate::picture::Status;
use crate::step::{Exec, Sign, Then};

/// What a pipe holds that nobody reads.
pub(crate) const PIPE_BYTES: usize = 64 * 1024;
/// What a denied program says.
pub(crate) const DENIAL: &str = "open: Permission denied\n";

/// The bytes that the `number`th command says in an attempt: no two neighbours are alike, so that what is lost or doubled
/// shows.
pub(crate) fn words(number: usize, attempt: usize, from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|at| b'a' + ((at * 7 + at / 26 + number * 3 + attempt) % 26) as u8).collect()
}

#[derive(Clone, Debug)]
enum Act {
    Says(Vec<u8>),
    Exits(i32),
    Echoes,
}

#[derive(Clone, Debug)]
pub(crate) struct Child {
    acts: VecDeque<(u64, Act)>,
    ignores_term: bool,
    echoing: bool,
    input: Vec<u8>,
    input_ended: bool,
    /// When the descendant ends by itself, and whether it holds the outputs.
    descendant: Option<(Option<u64>, bool)>,
    pub(crate) said: Vec<u8>,
    pub(crate) ended: Option<(u64, Status)>,
}

impl Child {
    pub(crate) fn start(exec: &Exec, (number, attempt): (usize, usize), sandboxed: bool, now: u64) -> Self {
        let program = &exec.program;
        let mut acts = VecDeque::new();
        let mut at = now;
        let mut said = 0;
        match program.denied.filter(|_| sandboxed) {
            Some(after) => {
                acts.push_back((at, Act::Says(DENIAL.into())));
                acts.push_back((at + after, Act::Exits(1)));
            }
            None => {
                for (after, length) in &program.says {
                    at += after;
                    acts.push_back((at, Act::Says(words(number, attempt, said, *length))));
                    said += length;
                }
                match program.then {
                    Then::Exits { after, code } => acts.push_back((at + after, Act::Exits(code))),
                    Then::Lives => {}
                    Then::Echoes => acts.push_back((at, Act::Echoes)),
                }
            }
        }
        let descendant = program
            .descendant
            .map(|descendant| (descendant.lives.map(|ms| now + ms), descendant.holds_outputs));
        let mut child = Self {
            acts,
            ignores_term: program.ignores_term,
            echoing: false,
            input: Vec::new(),
            input_ended: !exec.stdin && !exec.terminal,
            descendant,
            said: Vec::new(),
            ended: None,
        };
        // What it does first it has done before anybody hears of it.
        child.play(now);
        child
    }

    /// When it does something next by itself.
    pub(crate) fn due(&self) -> Option<u64> {
        let acts = self.acts.front().filter(|_| self.ended.is_none() && !self.echoing).map(|(at, _)| *at);
        let descendant = self.descendant.and_then(|(until, _)| until);
        acts.into_iter().chain(descendant).min()
    }

    /// Does everything that is due.
    pub(crate) fn play(&mut self, now: u64) {
        if self.descendant.is_some_and(|(until, _)| until.is_some_and(|until| until <= now)) {
            self.descendant = None;
        }
        while self.ended.is_none() && !self.echoing && self.acts.front().is_some_and(|(at, _)| *at <= now) {
            match self.acts.pop_front() {
                Some((_, Act::Says(bytes))) => self.said.extend(bytes),
                Some((_, Act::Exits(code))) => self.ended = Some((now, Status::Code(code))),
                Some((_, Act::Echoes)) => self.echoing = true,
                None => {}
            }
        }
        if self.ended.is_none() && self.echoing {
            self.said.append(&mut self.input);
            if self.input_ended {
                self.ended = Some((now, Status::Code(0)));
            }
        }
    }

    /// Takes a prefix of `data`; answers how long it was.
    pub(crate) fn take(&mut self, data: &[u8]) -> usize {
        let length = if self.echoing { data.len() } else { data.len().min(self.room()) };
        self.input.extend(&data[..length]);
        length
    }

    pub(crate) fn room(&self) -> usize {
        if self.echoing { PIPE_BYTES } else { PIPE_BYTES - self.input.len() }
    }

    /// Its input is over. It sees that when it reads.
    pub(crate) fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// A signal; answers whether anybody was there to get it.
    pub(crate) fn signal(&mut self, sign: Sign, (group, tree): (bool, bool), now: u64) -> bool {
        let alive = self.ended.is_none();
        let deaf = sign == Sign::Winch || (sign == Sign::Term && self.ignores_term);
        if alive && !deaf {
            self.ended = Some((now, Status::Signal(number(sign))));
        }
        let reaches = (group || tree) && self.descendant.is_some();
        if reaches && sign != Sign::Winch {
            self.descendant = None;
        }
        alive || reaches
    }

    pub(crate) fn outputs_closed(&self) -> bool {
        self.ended.is_some() && !self.descendant.is_some_and(|(_, holds)| holds)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.ended.is_some() && self.descendant.is_none()
    }
}

const fn number(sign: Sign) -> i32 {
    match sign {
        Sign::Int => 2,
        Sign::Kill => 9,
        Sign::Term => 15,
        Sign::Winch => 28,
    }
}
