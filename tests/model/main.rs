//! A simple model of the service beside the service: the same steps are given to both, and after each one they must look
//! the same. The service is driven through `unified_exec::host`, its children play scripts, and time is virtual. The model
//! (`model/`) is written from the specification and shares no code with the core.
//!
//! ```text
//!  step (drawn, shrinks) ──► model::Session ──► Picture ─┐
//!            └─────────────► host ──► core ───► Picture ─┴─ equal?
//! ```
//! More lives, or the same ones again: `PROPTEST_CASES=20000`, `PROPTEST_RNG_SEED=7`.
#![cfg(feature = "test-util")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a life fails by panicking, in its helpers too")]

mod model;
mod picture;
mod service;
mod stage;
mod step;

use std::fmt;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use model::Session;
use service::Service;
use step::{Policy, Profile, SESSIONS, Step};

/// The model of a whole life: its sessions, and what they began with.
#[derive(Clone)]
struct World {
    rights: [(Policy, Profile); SESSIONS],
    sessions: [Session; SESSIONS],
}

impl World {
    fn new(rights: [(Policy, Profile); SESSIONS]) -> Self {
        let session = |number: usize| Session::new(number, rights[number].0, rights[number].1);
        Self { rights, sessions: [session(0), session(1)] }
    }
}

impl fmt::Debug for World {
    /// What a life began with: the rest follows from its steps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rights {:?}", self.rights)
    }
}

impl ReferenceStateMachine for World {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        let rights = || (step::policy(), step::profile());
        (rights(), rights()).prop_map(|(one, other)| Self::new([one, other])).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Step> {
        step::step().boxed()
    }

    fn apply(mut world: Self, step: &Step) -> Self {
        match step {
            Step::Call(session, ask) => world.sessions[*session].ask(ask),
            Step::Advance(ms) => world.sessions.iter_mut().for_each(|session| session.advance(*ms)),
        }
        world
    }
}

/// The service, held against the model.
struct Beside;

impl StateMachineTest for Beside {
    type SystemUnderTest = Service;
    type Reference = World;

    fn init_test(world: &World) -> Service {
        Service::new(world.rights)
    }

    fn apply(mut service: Service, _: &World, step: Step) -> Service {
        match step {
            Step::Call(session, ask) => service.ask(session, &ask),
            Step::Advance(ms) => service.advance(ms),
        }
        service
    }

    fn check_invariants(service: &Service, world: &World) {
        for (number, session) in world.sessions.iter().enumerate().filter(|(_, session)| !session.blurred) {
            assert_eq!(
                service.picture(number),
                session.picture(),
                "session {number}: the service, then the model"
            );
        }
    }

    fn teardown(service: Service, _: World) {
        service.end();
    }
}

/// The same lives every time, unless the environment says otherwise.
fn config() -> ProptestConfig {
    let given = ProptestConfig::default();
    let rng_seed = if given.rng_seed == RngSeed::Random { RngSeed::Fixed(1) } else { given.rng_seed };
    ProptestConfig { rng_seed, failure_persistence: None, ..given }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    fn the_service_looks_like_its_model(sequential 1..50 => Beside);
}
