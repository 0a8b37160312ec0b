! ranks: 2
! A library has a communicator of its own: its messages never meet those of the program.
      PROGRAM CONTXT
      USE MPI
      IMPLICIT NONE
      INTEGER IERR, ME, LIBC, REQ, V, GOT
      INTEGER STAT(MPI_STATUS_SIZE)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_IDUP(MPI_COMM_WORLD, LIBC, REQ, IERR)
      CALL MPI_WAIT(REQ, MPI_STATUS_IGNORE, IERR)
      V = 10*ME
      CALL MPI_SENDRECV(V, 1, MPI_INTEGER, 1-ME, 3, GOT, 1, MPI_INTEGER,
     &                  1-ME, 3, LIBC, STAT, IERR)
      IF (GOT .NE. 10*(1-ME)) ERROR STOP 'the copy'
      IF (ME .EQ. 0) THEN
         CALL MPI_SEND(1, 1, MPI_INTEGER, 1, 8, MPI_COMM_WORLD, IERR)
         CALL MPI_SEND(2, 1, MPI_INTEGER, 1, 8, LIBC, IERR)
      ELSE
         CALL MPI_RECV(GOT, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG,
     &                 LIBC, STAT, IERR)
         IF (GOT .NE. 2) ERROR STOP 'a message of the program'
         CALL MPI_RECV(GOT, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG,
     &                 MPI_COMM_WORLD, STAT, IERR)
         IF (GOT .NE. 1) ERROR STOP 'a message of the library'
      END IF
      CALL MPI_COMM_FREE(LIBC, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
