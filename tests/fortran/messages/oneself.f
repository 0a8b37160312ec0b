! ranks: 1 2
! A process exchanges messages with itself.
      PROGRAM ONESLF
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, I, R(2), N
      INTEGER STATS(MPI_STATUS_SIZE,2)
      REAL A(10), B(10)
      COMMON /WORK/ A, B
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_SELF, N, IERR)
      IF (N .NE. 1) STOP 1
      CALL MPI_COMM_RANK(MPI_COMM_SELF, ME, IERR)
      IF (ME .NE. 0) STOP 2
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      DO 10 I = 1, 10
         A(I) = ME + 0.25*I
         B(I) = 0
   10 CONTINUE
      CALL MPI_ISEND(A, 10, MPI_REAL, 0, 3, MPI_COMM_SELF, R(1), IERR)
      CALL MPI_IRECV(B, 10, MPI_REAL, MPI_ANY_SOURCE, 3, MPI_COMM_SELF,
     &               R(2), IERR)
      CALL MPI_WAITALL(2, R, STATS, IERR)
      CALL MPI_F_SYNC_REG(B)
      DO 20 I = 1, 10
         IF (B(I) .NE. ME + 0.25*I) STOP 3
   20 CONTINUE
      CALL MPI_GET_COUNT(STATS(1,2), MPI_REAL, N, IERR)
      IF (N .NE. 10 .OR. STATS(MPI_SOURCE,2) .NE. 0) STOP 4
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
