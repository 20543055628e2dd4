//! The brief for an agent that has lost its context.
