//! How steps are drawn: what is common often, and times mostly around those at which something changes.

use proptest::prelude::*;

use super::*;

/// Times around which something changes, and others.
fn moment() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => prop::sample::select(vec![
            0, 1, 19, 20, 21, 49, 50, 51, 99, 100, 101, 149, 150, 151, 249, 250, 251, 999, 1_000, 1_001, 4_999, 5_000,
            5_001,
        ]),
        2 => 0..400_u64,
        1 => 0..12_000_u64,
    ]
}

fn program() -> impl Strategy<Value = Program> {
    let descendant = (prop::option::weighted(0.7, moment()), any::<bool>())
        .prop_map(|(lives, holds_outputs)| Descendant { lives, holds_outputs });
    let then = prop_oneof![
        4 => (moment(), prop_oneof![2 => Just(0), 1 => Just(3)])
            .prop_map(|(after, code)| Then::Exits { after, code }),
        3 => Just(Then::Lives),
        2 => Just(Then::Echoes),
    ];
    (
        prop_oneof![2 => Just(0), 1 => moment()],
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.2),
        prop::option::weighted(0.25, descendant),
        prop::option::weighted(0.5, prop_oneof![2 => Just(150), 1 => Just(151), 3 => moment()]),
        prop::collection::vec((moment(), prop_oneof![20 => 1..40_usize, 1 => Just(70_000)]), 0..3),
        then,
    )
        .prop_map(|(starts, fails, ignores_term, descendant, denied, says, then)| Program {
            starts,
            fails,
            ignores_term,
            descendant,
            denied,
            says,
            then,
        })
}

fn exec() -> impl Strategy<Value = Exec> {
    let mode = prop_oneof![
        4 => prop::option::weighted(0.8, moment()).prop_map(|wait| Mode::Interactive { wait }),
        1 => Just(Mode::Follow),
        1 => prop::option::weighted(0.8, moment()).prop_map(|timeout| Mode::OneShot { timeout }),
    ];
    let command = prop_oneof![
        5 => Just(Command::Plain),
        3 => Just(Command::Allowed),
        2 => Just(Command::Prompted),
        1 => Just(Command::Forbidden),
        1 => Just(Command::Dangerous),
    ];
    (turn(), mode, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), command, program()).prop_map(
        |(turn, mode, terminal, stdin, escalated, command, program)| Exec {
            turn,
            mode,
            terminal,
            stdin,
            escalated,
            command,
            program,
        },
    )
}

fn turn() -> impl Strategy<Value = Turn> {
    0..2_u8
}

fn whom() -> impl Strategy<Value = Whom> {
    prop_oneof![12 => any::<u8>().prop_map(Whom::Own), 1 => any::<u8>().prop_map(Whom::Foreign)]
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        2 => Just(Policy::Never),
        2 => Just(Policy::OnRequest),
        3 => Just(Policy::UnlessTrusted),
        2 => (any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(rules, sandbox, stdin)| Policy::Granular { rules, sandbox, stdin }),
    ]
}

pub(crate) fn profile() -> impl Strategy<Value = Profile> {
    prop_oneof![
        1 => Just(Profile::Full),
        5 => Just(Profile::ReadOnly),
        1 => Just(Profile::DenyRead),
        1 => Just(Profile::External),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let input = prop_oneof![
        4 => Just(Input::Poll),
        4 => (1..40_usize).prop_map(Input::Bytes),
        1 => prop_oneof![1 => Just(8_100), 1 => Just(70_000)].prop_map(Input::Bytes),
        1 => Just(Input::Nul),
        1 => Just(Input::Interrupt),
        1 => Just(Input::Eof),
    ];
    let write = (whom(), input, prop::option::weighted(0.8, moment()))
        .prop_map(|(to, input, wait)| Ask::Write { to, input, wait });
    let what = prop::sample::select(vec![What::Exit, What::Closed, What::Output]);
    let wait = (whom(), what, prop::option::of(moment())).prop_map(|(on, what, timeout)| Ask::Wait {
        on,
        what,
        timeout,
    });
    let sign = prop::sample::select(vec![Sign::Int, Sign::Term, Sign::Kill, Sign::Winch]);
    let signal =
        (whom(), sign, any::<bool>()).prop_map(|(to, signal, tree)| Ask::Signal { to, signal, tree });
    let which = prop_oneof![
        8 => any::<u8>().prop_map(Which::Open),
        2 => any::<u8>().prop_map(Which::Any),
        1 => Just(Which::Unknown),
    ];
    let answer = prop_oneof![
        6 => Just(Answer::Approve),
        3 => Just(Answer::ApproveForSession),
        1 => Just(Answer::AddRule),
        2 => Just(Answer::Decline),
        1 => Just(Answer::Abort),
    ];
    let decide = (which, answer).prop_map(|(which, answer)| Ask::Decide { which, answer });
    let change = prop_oneof![
        3 => policy().prop_map(Change::Policy),
        3 => profile().prop_map(Change::Profile),
        1 => (0..2_u8).prop_map(Change::Cwd),
    ];
    let update =
        (change, prop::bool::weighted(0.1)).prop_map(|(change, stale)| Ask::Update { change, stale });
    prop_oneof![
        24 => exec().prop_map(Ask::Exec),
        22 => write,
        6 => wait,
        4 => signal,
        4 => whom().prop_map(Ask::Terminate),
        1 => Just(Ask::Clean),
        4 => turn().prop_map(Ask::Interrupt),
        4 => (0..2_u8, prop_oneof![1 => Just(0), 2 => moment()]).prop_map(|(lease, ms)| Ask::Hold { lease, ms }),
        5 => any::<u8>().prop_map(Ask::HangUp),
        20 => decide,
        6 => update,
    ]
}

/// Anything that can be done next.
pub(crate) fn step() -> impl Strategy<Value = Step> {
    let session = prop_oneof![4 => Just(0), 1 => Just(1)];
    prop_oneof![
        3 => (session, ask()).prop_map(|(session, ask)| Step::Call(session, ask)),
        2 => moment().prop_map(Step::Advance),
    ]
}
