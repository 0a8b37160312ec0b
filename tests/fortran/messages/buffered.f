! ranks: 1 2
! Buffered sends: the message is on its way before anybody receives it.
      PROGRAM BUFFER
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER N, ROOM
      PARAMETER (N=50)
      PARAMETER (ROOM=2*(8*N + MPI_BSEND_OVERHEAD))
      INTEGER IERR, ME, NP, TO, FROM, I, SIZE, BYTES
      INTEGER REQ, SPACE(ROOM/4+1), OLD
      DOUBLE PRECISION A(N), B(N)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      TO = MOD(ME+1, NP)
      FROM = MOD(ME+NP-1, NP)
      CALL MPI_PACK_SIZE(N, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD,
     &                   BYTES, IERR)
      IF (BYTES .LT. 8*N) STOP 1
      CALL MPI_BUFFER_ATTACH(SPACE, ROOM, IERR)
      DO 10 I = 1, N
         A(I) = ME*100 + I
   10 CONTINUE
      CALL MPI_BSEND(A, N, MPI_DOUBLE_PRECISION, TO, 1,
     &               MPI_COMM_WORLD, IERR)
C     The message has left: a change does not reach it.
      DO 20 I = 1, N
         A(I) = -A(I)
   20 CONTINUE
      CALL MPI_IBSEND(A, N, MPI_DOUBLE_PRECISION, TO, 2,
     &                MPI_COMM_WORLD, REQ, IERR)
      CALL MPI_WAIT(REQ, MPI_STATUS_IGNORE, IERR)
      CALL MPI_RECV(B, N, MPI_DOUBLE_PRECISION, FROM, 2,
     &              MPI_COMM_WORLD, MPI_STATUS_IGNORE, IERR)
      DO 30 I = 1, N
         IF (B(I) .NE. -(FROM*100 + I)) STOP 2
   30 CONTINUE
      CALL MPI_RECV(B, N, MPI_DOUBLE_PRECISION, FROM, 1,
     &              MPI_COMM_WORLD, MPI_STATUS_IGNORE, IERR)
      DO 40 I = 1, N
         IF (B(I) .NE. FROM*100 + I) STOP 3
   40 CONTINUE
      SIZE = -1
      CALL MPI_BUFFER_DETACH(OLD, SIZE, IERR)
      IF (SIZE .NE. ROOM) STOP 4
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
