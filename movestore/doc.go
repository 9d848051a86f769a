// Package movestore moves a service from one store to another in three deploys,
// without a pause and without a second effect while processes of two deploys run
// side by side: between Redis alone, Postgres alone, and tiers of them.
//
//	deploy 1   New(old, new, Both)      claims in the old store and then in the new
//	deploy 2   New(old, new, NewAlone)  claims in the new one; reads the old one
//	           until Copy says that nothing is left there
//	deploy 3   new, without this package  drops the old one
//
// Each deploy must be complete (no process of the one before is running, none
// will be started) before the next but one begins: plain old beside Both, Both
// beside NewAlone, NewAlone beside plain new. Deploys 1 and 2 can be rolled back.
// docs/migration.md is the recipe.
//
// # Who decides
//
// Somebody runs an operation only if every store grants the claim that a process
// running beside it may ask:
//
//	plain old   old
//	Both        old and new
//	NewAlone    new, and old if a record there is not settled
//	plain new   new
//
// So any two that may run side by side have one store in common that both claim
// in, and at most one unexpired claim there (I1).
//
// # Where an outcome is written first
//
//	Both      old, then new: a plain old process looks nowhere else
//	NewAlone  new, then old: a plain new process looks nowhere else
//
// A process that dies between the two leaves an outcome in the one store and a
// claim whose lease ends in the other. Whoever takes that claim over finds the
// outcome, because Both and NewAlone look into both stores before anything runs.
//
// # What the failure of a store means
//
// Both needs both stores for a first execution; without either it fails with what
// that store's client says, and nothing runs. A replay needs the old one. NewAlone
// needs both for a first execution, and the new one for a replay. An outcome that
// only the second store did not take is reported as not recorded by Both, and
// found all the same; NewAlone does not ask twice.
//
// # Tokens
//
// Both tells the old store's tokens, NewAlone the new one's. They rise from one to
// the other provided that the new server's clock is not behind the old one's by
// more than what lies between two claims of a key (I2).
package movestore
