//! What the person's keyboard and the system tell us goes on to the command.

use super::drive::Target;
use crate::cli::connect::Client;
use crate::cli::output;
use crate::cli::signals::{Heard, Signals};
use crate::cli::terminal;
use crate::grpc::pb;

/// SIGINT.
pub(super) const INTERRUPT_NUMBER: u8 = 2;

/// Forwards signals until the command is over: SIGINT first as it is, then as the end of everything, then we leave.
pub(super) async fn forward(mut target: Target) {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return output::note(&format!("signals are not forwarded: {error}")),
    };
    let mut interrupts = 0_u32;
    loop {
        let heard = signals.next().await;
        let Some(process_id) = *target.process.borrow() else {
            // Nothing runs yet: the call is dropped, and with it the start.
            return target.give_up.cancel();
        };
        match heard {
            Heard::Interrupt if interrupts == 0 => {
                interrupts += 1;
                send(&mut target, process_id, "INT").await;
            }
            Heard::Quit => send(&mut target, process_id, "QUIT").await,
            Heard::Interrupt if interrupts > 1 => return target.give_up.cancel(),
            Heard::Interrupt | Heard::Terminate => {
                interrupts = interrupts.max(1) + 1;
                let (mut client, session) = (target.client.clone(), target.session.clone());
                // Not waited for here: the person may press once more.
                tokio::spawn(async move { terminate(&mut client, &session, process_id).await });
            }
        }
    }
}

async fn send(target: &mut Target, process_id: u32, signal: &str) {
    let scope = if target.tty { pb::SignalScope::ForegroundGroup } else { pb::SignalScope::Group };
    let request = pb::SignalProcessRequest {
        session_id: target.session.clone(),
        process_id,
        signal: signal.to_owned(),
        scope: scope.into(),
        ..Default::default()
    };
    if let Err(status) = target.client.exec.signal_process(request).await {
        output::note(&format!("SIG{signal} did not reach the command: {}", status.message()));
    }
}

/// Ends a process with all it started. That it has ended already is fine.
pub(super) async fn terminate(client: &mut Client, session: &str, process_id: u32) {
    let request =
        pb::TerminateProcessRequest { session_id: session.to_owned(), process_id, ..Default::default() };
    if let Err(status) = client.exec.terminate_process(request).await {
        tracing::debug!(%status, process_id, "cannot be terminated");
    }
}

/// Gives the command's terminal the size of ours whenever that changes.
pub(super) async fn follow_size(mut target: Target, process_id: u32) {
    let Ok(mut resizes) = terminal::Resizes::listen() else { return };
    while let Some(size) = resizes.next().await {
        let request = pb::ResizeTerminalRequest {
            session_id: target.session.clone(),
            process_id,
            size: Some(size),
            ..Default::default()
        };
        if target.client.exec.resize_terminal(request).await.is_err() {
            // It has ended, which the stream tells.
            return;
        }
    }
}
