//! A child gets descriptors 0, 1 and 2, and nothing else.

use unified_exec::core::spawn::Stdio;

use crate::run::{Kind, Running, plan};
use crate::subject::{Subject, over_local};

over_local! {
    play,
    a_child_gets_three_descriptors_and_no_more,
    no_child_inherits_from_a_start_beside_it,
    input_that_nobody_asked_for_is_at_its_end,
}

const LIST_OPEN: &str = "import os\n\
                         def is_open(fd):\n    \
                             try:\n        os.fstat(fd)\n    \
                             except OSError:\n        return False\n    \
                             return True\n\
                         print('open:', [fd for fd in range(4096) if is_open(fd)])";

fn python(kind: Kind) -> unified_exec::core::spawn::SpawnPlan {
    plan(&["python3", "-S", "-E", "-c", LIST_OPEN], kind.stdio())
}

async fn a_child_gets_three_descriptors_and_no_more(subject: Subject) {
    // None of these is closed on exec.
    let file = std::fs::File::open("/dev/null").unwrap();
    let held: Vec<_> = (0..300).map(|_| rustix::io::dup(&file).unwrap()).collect();
    let child = Running::new(subject.spawner.spawn(python(subject.kind)).await.unwrap());
    assert_eq!(child.ended().await.text().trim_end(), "open: [0, 1, 2]");
    drop(held);
}

async fn no_child_inherits_from_a_start_beside_it(subject: Subject) {
    let mut starts = Vec::new();
    for _ in 0..40 {
        // Terminals are opened beside every start: portable-pty's descriptors are inheritable for a moment.
        let terminal = plan(&["true"], Kind::Terminal.stdio());
        starts.push((subject.spawner.spawn(python(subject.kind)), subject.spawner.spawn(terminal)));
    }
    for (child, terminal) in starts {
        let (child, terminal) = (Running::new(child.await.unwrap()), Running::new(terminal.await.unwrap()));
        assert_eq!(child.ended().await.text().trim_end(), "open: [0, 1, 2]");
        terminal.ended().await;
    }
}

async fn input_that_nobody_asked_for_is_at_its_end(subject: Subject) {
    let spawned = subject.spawner.spawn(plan(&["cat"], Stdio::Pipes { stdin: false })).await.unwrap();
    assert!(spawned.stdin.is_none());
    let seen = Running::new(spawned).ended().await;
    assert_eq!((seen.text().as_str(), seen.exited.unwrap().status.shell_code()), ("", 0));
}
