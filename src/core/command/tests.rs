use super::*;

fn defaults() -> Defaults {
    Defaults {
        cwd: "/work".into(),
        shell: "/bin/bash".into(),
        allow_login: false,
        env: EnvPolicy::default(),
        inherited: vec![
            EnvVar::new("PATH", "/usr/bin:/bin"),
            EnvVar::new("HOME", "/home/agent"),
            EnvVar::new("SERVICE_TOKEN", "s3cret"),
            EnvVar::new("TERM", "xterm"),
        ],
    }
}

fn shell(cmd: &str) -> Command {
    Command {
        program: Program::Shell { cmd: cmd.into(), shell: None, login: None },
        cwd: None,
        env: Vec::new(),
        terminal: None,
        stdin: false,
        full_terminal: false,
    }
}

fn value<'a>(env: &'a [EnvVar], name: &str) -> Option<&'a [u8]> {
    env.iter().find(|var| var.name == name).map(|var| &*var.value)
}

fn plan(command: &Command) -> SpawnPlan {
    command.plan(&defaults(), &SessionId::new("s"), ProcessId::new(1234).unwrap())
}

#[test]
fn a_shell_line_becomes_one_argument_of_the_shell() {
    let mut command = shell("echo 'a b'; exit 3");
    assert_eq!(plan(&command).argv, ["/bin/bash", "-c", "echo 'a b'; exit 3"]);
    command.program = Program::Shell { cmd: "x".into(), shell: Some("zsh".into()), login: Some(true) };
    let login = Defaults { allow_login: true, ..defaults() };
    assert_eq!(command.argv(&login), ["zsh", "-lc", "x"]);
}

#[test]
fn relative_directories_start_at_the_session() {
    let mut command = shell("true");
    for (asked, got) in
        [(None, "/work"), (Some("sub/dir"), "/work/sub/dir"), (Some("/tmp"), "/tmp"), (Some(""), "/work")]
    {
        command.cwd = asked.map(str::to_owned);
        assert_eq!(plan(&command).cwd, got);
    }
}

#[test]
fn the_services_own_variables_stay_with_the_service() {
    let env = plan(&shell("true")).env;
    assert_eq!(value(&env, "PATH"), Some(&b"/usr/bin:/bin"[..]));
    assert_eq!(value(&env, "SERVICE_TOKEN"), None);
    assert_eq!(value(&env, "TERM"), Some(&b"dumb"[..]), "the overlay wins over what is inherited");
    assert_eq!(value(&env, PROCESS_VARIABLE), Some(&b"1234"[..]));
}

#[test]
fn a_variable_that_the_caller_names_wins_over_the_overlay() {
    let mut command = shell("true");
    command.env = vec![EnvVar::new("PAGER", "less"), EnvVar { name: "X".into(), value: vec![0xFF].into() }];
    let env = plan(&command).env;
    assert_eq!(value(&env, "PAGER"), Some(&b"less"[..]));
    assert_eq!(value(&env, "X"), Some(&[0xFF][..]), "values are bytes");
}

#[test]
fn a_full_terminal_keeps_pagers_and_colours() {
    let mut command = shell("true");
    command.full_terminal = true;
    let env = plan(&command).env;
    assert_eq!(value(&env, "TERM"), Some(&b"xterm-256color"[..]));
    assert_eq!(value(&env, "NO_COLOR"), None);
}

#[test]
fn the_environment_policy_applies_in_its_order() {
    let policy = EnvPolicy {
        inherit: Inherit::All,
        default_excludes: true,
        exclude: vec!["te?m".into()],
        set: vec![EnvVar::new("API_KEY", "given on purpose"), EnvVar::new("LANG", "C")],
        include_only: vec!["p*".into(), "API*".into()],
    };
    let env = policy.apply(&defaults().inherited);
    let names: Vec<&str> = env.iter().map(|var| &*var.name).collect();
    assert_eq!(names, ["PATH", "API_KEY"]);
}

#[test]
fn bad_commands_name_their_field() {
    let field = |command: Command| command.check(&defaults()).unwrap_err().field;
    assert_eq!(field(shell("")), "cmd");
    assert_eq!(field(shell("a\0b")), "cmd");
    assert_eq!(field(Command { program: Program::Argv(vec![]), ..shell("x") }), "argv");
    assert_eq!(
        field(Command { program: Program::Argv(vec!["a".into(), "\0".into()]), ..shell("x") }),
        "argv"
    );
    assert_eq!(field(Command { cwd: Some("/a\0".into()), ..shell("x") }), "cwd");
    assert_eq!(field(Command { env: vec![EnvVar::new("A=B", "c")], ..shell("x") }), "env");
    assert_eq!(
        field(Command { terminal: Some(TerminalSize { rows: 0, cols: 80 }), ..shell("x") }),
        "terminal_size"
    );
    let login = Program::Shell { cmd: "x".into(), shell: None, login: Some(true) };
    assert_eq!(field(Command { program: login, ..shell("x") }), "login");
    let fish = Program::Shell { cmd: "x".into(), shell: Some("/usr/bin/fish".into()), login: None };
    assert_eq!(field(Command { program: fish, ..shell("x") }), "shell");
}

#[test]
fn a_variables_value_is_never_shown() {
    assert_eq!(format!("{:?}", EnvVar::new("TOKEN", "s3cret")), "TOKEN=…");
}

#[test]
fn variables_that_may_make_another_program_of_a_command_are_named() {
    let mut defaults = defaults();
    defaults.inherited = vec![EnvVar::new("PATH", "/usr/bin")];
    defaults.env.set = vec![EnvVar::new("PATH", "/usr/bin"), EnvVar::new("GIT_SSH_COMMAND", "x")];
    let plain = Command { env: vec![EnvVar::new("TZ", "UTC"), EnvVar::new("LC_TIME", "C")], ..shell("ls") };
    assert_eq!(plain.influences(&defaults), ["GIT_SSH_COMMAND"], "what the service has itself is none");
    let odd = Command {
        env: vec![EnvVar::new("PATH", "/tmp/evil"), EnvVar::new("LD_PRELOAD", "x")],
        ..shell("ls")
    };
    assert_eq!(odd.influences(&defaults), ["GIT_SSH_COMMAND", "LD_PRELOAD", "PATH"]);
}
