package memstore

// element is a link of a ring with its item inside, so that linking, moving and
// unlinking allocate nothing.
//
//	root <-> oldest <-> ... <-> newest <-> root
type element[T any] struct {
	prev, next *element[T]
	item       T
}

// after links e, which is in no ring, behind at.
func (e *element[T]) after(at *element[T]) {
	e.prev, e.next = at, at.next
	at.next.prev = e
	at.next = e
}

// unlink takes e out of its ring. Its neighbours become each other's.
func (e *element[T]) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// ring is a circular list, from the oldest element to the newest. It must not
// be copied after init.
type ring[T any] struct {
	root element[T] // its item stays zero
}

func (r *ring[T]) init() { r.root.prev, r.root.next = &r.root, &r.root }

// push links e, which is in no ring, as the newest.
func (r *ring[T]) push(e *element[T]) { e.after(r.root.prev) }

// oldest returns nil if the ring is empty.
func (r *ring[T]) oldest() *element[T] {
	if r.root.next == &r.root {
		return nil
	}
	return r.root.next
}
