! ranks: 2 4
! Replies in the order in which they come, by MPI_WAITANY.
      PROGRAM ANYONE
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER MAXP
      PARAMETER (MAXP=16)
      INTEGER IERR, ME, NP, I, K, IDX, REQS(MAXP), GOT(MAXP)
      INTEGER STAT(MPI_STATUS_SIZE), VALS(MAXP)
      COMMON /RECVD/ VALS
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      IF (ME .EQ. 0) THEN
         DO 10 I = 1, NP - 1
            GOT(I) = 0
            CALL MPI_IRECV(VALS(I), 1, MPI_INTEGER, I, 1,
     &                     MPI_COMM_WORLD, REQS(I), IERR)
   10    CONTINUE
         DO 20 K = 1, NP - 1
            CALL MPI_WAITANY(NP-1, REQS, IDX, STAT, IERR)
            CALL MPI_F_SYNC_REG(VALS)
            IF (IDX .LT. 1 .OR. IDX .GT. NP-1) STOP 1
            IF (STAT(MPI_SOURCE) .NE. IDX) STOP 2
            IF (VALS(IDX) .NE. IDX*IDX) STOP 3
            IF (REQS(IDX) .NE. MPI_REQUEST_NULL) STOP 4
            GOT(IDX) = GOT(IDX) + 1
   20    CONTINUE
         DO 30 I = 1, NP - 1
            IF (GOT(I) .NE. 1) STOP 5
   30    CONTINUE
         CALL MPI_WAITANY(NP-1, REQS, IDX, MPI_STATUS_IGNORE, IERR)
         IF (IDX .NE. MPI_UNDEFINED) STOP 6
      ELSE
         CALL MPI_SEND(ME*ME, 1, MPI_INTEGER, 0, 1,
     &                 MPI_COMM_WORLD, IERR)
      END IF
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
