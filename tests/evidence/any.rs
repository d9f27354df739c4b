//! What holds whatever a child prints.

use proptest::prelude::*;
use unified_exec::core::policy::{Files, Network, Profile};
use unified_exec::core::process::{Confidence, Ended, Evidence, ExitStatus};

fn profiles() -> impl Strategy<Value = Profile> {
    let files = prop_oneof![
        Just(Files::ReadOnly),
        Just(Files::FullAccess),
        Just(Files::WorkspaceWrite {
            writable_roots: vec!["/w".into(), "/".into()],
            protected: vec![".git".into(), "etc".into()],
        }),
    ];
    let network =
        prop_oneof![Just(Network::On), Just(Network::Off), Just(Network::Proxied { rules: Vec::new() })];
    let denied = prop::collection::vec(
        prop_oneof![Just("/w/**/*.pem".to_owned()), Just("**/.env".to_owned()), "[/*?a.]{0,12}"],
        0..3,
    );
    (files, network, denied).prop_map(|(files, network, deny_read)| Profile { files, network, deny_read })
}

/// Bytes, words and shapes that the rules look at, in any order.
fn outputs() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "Permission denied",
        "operation not permitted",
        "Read-only file system",
        "could not resolve host: ",
        "\n",
        ": ",
        "'",
        "\"",
        "`",
        "\u{2018}",
        "/etc/x",
        "/w/a",
        "../",
        "/proc/self/root",
        "x.txt",
        "cat",
        "(",
        ")",
        " line 3",
        "Caused by:",
        "\u{1b}[",
        "\u{1b}]",
        "ä",
        "1.1.1.1",
        "https://",
        "cannot create ",
        "[Errno 13] ",
        "EACCES",
        ":12:",
        "/dev/tcp/",
        "@",
        "Cannot open",
    ];
    let piece = prop_oneof![
        4 => prop::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_that_a_child_prints_breaks_the_rules(
        output in outputs(),
        profile in profiles(),
        code in 0..256_i32,
        cwd in prop_oneof![Just("/w"), Just("/"), Just("")],
    ) {
        let ended = Ended { status: ExitStatus::Code(code), output: &output, profile: &profile, cwd, early: false };
        let evidence = Evidence::of(&ended);
        prop_assert_eq!(&evidence, &Evidence::of(&ended));
        prop_assert!(code != 0 || evidence.is_none());
        let Some(evidence) = evidence else { return Ok(()) };
        prop_assert!(evidence.excerpt.len() <= 512);
        prop_assert!(!evidence.excerpt.contains(char::is_control));
        prop_assert!(evidence.confidence < Confidence::Certain, "text can be forged");
        if evidence.confidence == Confidence::Checked {
            let path = evidence.path.unwrap();
            prop_assert!(profile.forbids(&path) || profile.forbids_host(&path), "{}", path);
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_without_a_panic(output in prop::collection::vec(any::<u8>(), 0..4_000)) {
        let profile = Profile { files: Files::ReadOnly, ..Profile::full_access() };
        let ended = Ended { status: ExitStatus::Code(1), output: &output, profile: &profile, cwd: "/w", early: false };
        let _ = Evidence::of(&ended);
    }
}
